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
from gpunion.engine.coordinator.capacity import view
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning.clearing import turns
from gpunion.engine.coordinator.planning.preemption import without
from gpunion.engine.coordinator.windows import ends, promises
from gpunion.policy.placement.filters import LEAST_STAY_S, refusal, suitable
from gpunion.policy.windows.clearing import starved
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.promises import PROMISES_MOST, Place, Tenant, promise


def keep_places(draft: Draft, waiting: Sequence[Job]) -> None:
    policy = draft.policies.windows
    if policy is None or not policy.promises or not draft.state.in_windows:
        return
    wide = [job for job in waiting if job.spec.request.gpus > 1 and turns.seeks(draft, job)]
    given, books = promises.given(draft), promises.books(draft)
    nodes = sorted({draft.state.runs[run_id].node_id for run_id in draft.state.in_windows})
    for job in sorted(wide, key=lambda one: turns.need(draft, one, policy)):
        if given >= PROMISES_MOST:
            return
        if books.held_back(job) is None and _keep_place(draft, job, policy, nodes, given):
            given, books = given + 1, promises.books(draft)


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
    if run.phase is RunPhase.RUNNING and run.subjob is not None and run.subjob.end is WindowEnd.TURN:
        return max(draft.now_s, run.subjob.ends_s or draft.now_s) + run.subjob.save_s + ends.ASKED_S
    if not turns.may_be_cleared(draft, run) or not _needs_more(draft, job, run, policy):
        return None
    over_s = max(draft.now_s, turns.turn_ends_s(draft, run, policy))
    return over_s + ends.until(draft.job_of(run), run, over_s, WindowEnd.PROMISED).save_s + ends.ASKED_S


def _needs_more(draft: Draft, job: Job, run: Run, policy: WindowPolicy) -> bool:
    """Than a tenant that would have to go: it had less of its GPUs so far, or has waited for too long."""
    if starved(draft.now_s - job.waiting_since_s, policy.bounds):
        return True
    tenant = draft.job_of(run)
    return _worked_s(job) < _worked_s(tenant) + draft.now_s - (run.started_s or draft.now_s)


def _worked_s(job: Job) -> float:
    return 0.0 if job.profile is None else job.profile.worked_s
