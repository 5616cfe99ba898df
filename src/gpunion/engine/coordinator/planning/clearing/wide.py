"""Places for jobs that need several GPUs at once.

GPUs that come free one by one are taken one by one, so such a job is promised those of one machine that are
free together soonest. Whoever was to come there alone finds another place sooner than it would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.jobs.window import Promise, WindowEnd
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.resources import Gpu, Request
from gpunion.engine.coordinator.capacity import view
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning.clearing import quotas, turns
from gpunion.engine.coordinator.planning.placement import asked
from gpunion.engine.coordinator.planning.preemption import without
from gpunion.engine.coordinator.windows import ends, promises
from gpunion.policy.placement.filters import LEAST_STAY_S, refusal, suitable
from gpunion.policy.windows.clearing import starved
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.promises import PROMISES_MOST, Place, Tenant, promise

# Of those who wait so many that ask for something else are looked at in one pass: each asks every machine.
KINDS_AT_ONCE = 8


def keep_places(draft: Draft, waiting: Sequence[Job]) -> None:
    policy = draft.policies.windows
    if policy is None or not policy.promises or not draft.state.in_windows:
        return
    wide = [job for job in waiting if job.spec.request.gpus > 1 and turns.seeks(draft, job)]
    given = promises.given(draft)
    if not wide or given >= PROMISES_MOST:
        return
    books, room = quotas.books(draft), _Room(draft)
    wide.sort(key=lambda one: turns.need(draft, one, policy))
    kinds = {job.id: _kind(draft, job, policy) for job in wide if room.for_job(job)}
    looked_at = _looked_at([*dict.fromkeys(kinds.values())], draft.now_s / draft.timing.replan_s)
    for job in wide:
        if kinds.get(job.id) not in looked_at or books.held_back(job) is not None:
            continue
        if not _keep_place(draft, job, policy, room.for_job(job), given):
            looked_at.discard(kinds[job.id])  # nor would it be for others who ask for the same
            continue
        given, books = given + 1, quotas.books(draft)
        if given >= PROMISES_MOST:
            return


def _kind(draft: Draft, job: Job, policy: WindowPolicy) -> object:
    """Jobs of which this is equal get the same answer from every machine."""
    return (asked(job), _worked_s(job), least_stay_s(job), _has_waited_too_long(draft, job, policy))


def _looked_at(kinds: Sequence[object], passes: float) -> set[object]:
    """The first in need, and of the others each in turn: those before them may wait for what never comes."""
    first, others = kinds[: KINDS_AT_ONCE // 2], kinds[KINDS_AT_ONCE // 2 :]
    step = KINDS_AT_ONCE - len(first)
    begin = step * int(passes) % max(1, len(others))
    return {*first, *(*others[begin:], *others[:begin])[:step]}


class _Room:
    """Which machines could have room for a job at all, if everybody left who may have to: quick to see, and
    the same for all who ask for as much."""

    def __init__(self, draft: Draft):
        on: set[NodeId] = {draft.state.runs[run_id].node_id for run_id in draft.state.in_windows}
        self._emptied = [(view(draft, node_id), _most_of(draft, node_id)) for node_id in sorted(on)]
        self._found: dict[Request, list[NodeId]] = {}

    def for_job(self, job: Job) -> list[NodeId]:
        request = job.request
        if request not in self._found:
            self._found[request] = [
                here.node.id
                for here, gpus in self._emptied
                if len(suitable(gpus, request)) >= request.gpus
                and here.node.facts.lent_cpus >= request.cpus
                and here.lent_memory_bytes >= request.memory_bytes
            ]
        return self._found[request]


def _most_of(draft: Draft, node_id: NodeId) -> tuple[Gpu, ...]:
    """Its GPUs that are free, or whose tenants leave or could be asked to."""
    living = (draft.state.runs[run_id] for run_id in draft.state.living.get(node_id, ()))
    leaving = [run for run in living if _leaves(run) or turns.may_be_cleared(draft, run)]
    held, here = {index for run in leaving for index in run.held_gpus}, view(draft, node_id)
    return (*here.free_gpus, *(gpu for gpu in here.node.facts.lent_gpus if gpu.index in held))


def _keep_place(draft: Draft, job: Job, policy: WindowPolicy, nodes: list[NodeId], given: int) -> bool:
    found = promise(
        job.spec.request.gpus,
        list(_places(draft, job, policy, nodes)),
        draft.now_s,
        given=given,
        least_stay_s=least_stay_s(job),
    )
    if found is None:
        return False
    promises.take_back(draft, found)
    promises.give(draft, job, found)
    end_windows(draft, found, WindowEnd.PROMISED)
    return True


def end_windows(draft: Draft, promised: Promise, end: WindowEnd) -> None:
    """Of all who have any of it, together."""
    for run_id in sorted(draft.state.living.get(promised.node_id, ())):
        run = draft.state.runs[run_id]
        if not set(promised.gpus).isdisjoint(run.held_gpus) and turns.may_be_cleared(draft, run):
            ends.give(draft, run, ends.until(draft.job_of(run), run, promised.by_s, end))


def _places(draft: Draft, job: Job, policy: WindowPolicy, nodes: list[NodeId]) -> Iterator[Place]:
    for node_id in nodes:
        if not may_come(draft.state.nodes[node_id], job):
            continue
        here = view(draft, node_id)
        leaving = leaving_s(draft, job, node_id, policy)
        if refusal(job, without(here, draft, frozenset(leaving)), draft.now_s) is None:
            yield place_on(draft, job, here, leaving)


def least_stay_s(job: Job) -> float:
    """Before an owner's notice: a promise for less could be kept by nobody."""
    return max(LEAST_STAY_S, ends.sizing_for(job).overhead_s)


def may_come(node: Node, job: Job) -> bool:
    """Most machines have too few, and looking at who is there takes long."""
    return node.phase is NodePhase.SHARING and len(node.facts.capacity.gpus) >= job.spec.request.gpus


def place_on(draft: Draft, job: Job, here: NodeView, leaving: Mapping[RunId, float]) -> Place:
    """Of a machine what would do for the job, once those who can leave have left."""
    emptied = emptied_of(draft, here, leaving)
    able = {gpu.index for gpu in suitable(emptied.free_gpus, job.request)}
    runs = [draft.state.runs[run_id] for run_id in sorted(leaving)]
    known_end_s = here.node.known_end_s
    return Place(
        node_id=here.node.id,
        free=tuple(gpu.index for gpu in here.free_gpus if gpu.index in able),
        tenants=[
            Tenant(job_id=run.job_id, gpus=run.held_gpus, free_by_s=leaving[run.id])
            for run in runs
            if able.issuperset(run.held_gpus)
        ],
        until_s=None if known_end_s is None else known_end_s - here.node.facts.terms.notice_s,
    )


def emptied_of(draft: Draft, here: NodeView, leaving: Mapping[RunId, float]) -> NodeView:
    """Without those who can leave, and without what others were promised for good."""
    emptied = without(here, draft, frozenset(leaving))
    kept = (job.promised for job in promises.on(draft, here.node.id) if promises.stays(job))
    taken = {index for one in kept if one is not None for index in one.gpus}
    return replace(emptied, free_gpus=tuple(gpu for gpu in emptied.free_gpus if gpu.index not in taken))


def leaving_s(draft: Draft, job: Job, node_id: NodeId, policy: WindowPolicy) -> dict[RunId, float]:
    """Who leaves there, or may have to for this job, and when they will have."""
    living = [draft.state.runs[run_id] for run_id in sorted(draft.state.living.get(node_id, ()))]
    return {run.id: at_s for run in living if (at_s := _free_by_s(draft, job, run, policy)) is not None}


def _free_by_s(draft: Draft, job: Job, run: Run, policy: WindowPolicy) -> float | None:
    """Of who leaves already, when it will have; of who may have to for this job, when it could. None: nobody
    can say."""
    if _leaves(run):
        assert run.subjob is not None
        return max(draft.now_s, run.subjob.ends_s or draft.now_s) + run.subjob.save_s + ends.ASKED_S
    if not turns.may_be_cleared(draft, run) or not _needs_more(draft, job, run, policy):
        return None
    over_s = max(draft.now_s, turns.turn_ends_s(draft, run, policy))
    return over_s + ends.until(draft.job_of(run), run, over_s, WindowEnd.PROMISED).save_s + ends.ASKED_S


def _leaves(run: Run) -> bool:
    return run.phase is RunPhase.RUNNING and run.subjob is not None and run.subjob.end is WindowEnd.TURN


def _has_waited_too_long(draft: Draft, job: Job, policy: WindowPolicy) -> bool:
    return starved(draft.now_s - job.waiting_since_s, policy.bounds)


def _needs_more(draft: Draft, job: Job, run: Run, policy: WindowPolicy) -> bool:
    """Than a tenant that would have to go: it had less of its GPUs so far, or has waited for too long."""
    if _has_waited_too_long(draft, job, policy):
        return True
    tenant = draft.job_of(run)
    return _worked_s(job) < _worked_s(tenant) + draft.now_s - (run.started_s or draft.now_s)


def _worked_s(job: Job) -> float:
    return 0.0 if job.profile is None else job.profile.worked_s
