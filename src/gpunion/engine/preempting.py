"""Makes room for a job of a higher class that finds none: runs of lower classes are saved and go away."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpunion.domain.ids import NodeId, RunId, migration_id
from gpunion.domain.job import Job
from gpunion.domain.migration import Cause, MigrationPhase
from gpunion.domain.node import Node, NodePhase
from gpunion.domain.reasons import Why
from gpunion.domain.replacing import replace
from gpunion.domain.run import Run, RunPhase
from gpunion.domain.snapshot import NodeView
from gpunion.engine import accounts, gangs, moving
from gpunion.engine.capacity import view, views
from gpunion.engine.departing import active_flush_bps
from gpunion.engine.draft import Draft
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.gangs.placing import NotAllPlaced, place_gang
from gpunion.policy.placement.filters import refusal
from gpunion.policy.preemption import Candidate, Crowd, Room

# Of those who wait, so many are looked at in one pass: each asks every node.
JOBS_AT_ONCE = 4


def make_room(draft: Draft) -> None:
    """Only now and then, when waiting jobs are looked at again, and for one of them at a time."""
    if not draft.look_again or not draft.state.waiting:
        return
    lowest = _lowest_running(draft)
    waiting = draft.state.room.wishes.line(draft.policies.ordering).jobs
    if lowest is None or all(one.job.spec.priority <= lowest for one in waiting):
        return
    for job in _wanting(draft, lowest)[:JOBS_AT_ONCE]:
        rooms = _rooms(draft, job)
        for room in rooms:
            _carry_out(draft, job, room)
        if rooms:
            return


def _rooms(draft: Draft, job: Job) -> list[Room]:
    """For each member that has no place, on a machine of its own; for all of them, or nobody has to go."""
    found: list[Room] = []
    seat = job.spec.seat
    for _ in range(1 if seat is None else _missing(draft, job)):
        taken = {room.node_id for room in found}
        room = draft.policies.preemption.room(
            (crowd for crowd in _crowds(draft, job) if crowd.node_id not in taken),
            priority=int(job.spec.priority),
            weight=_weight(job, job.spec.request.gpus) / (1 if seat is None else seat.size),
            waited_s=draft.now_s - job.waiting_since_s,
        )
        if room is None:
            return []
        found.append(room)
    if seat is not None and any(_spare_bps(draft, draft.state.nodes[room.node_id]) <= 0 for room in found):
        return []
    return found


def _missing(draft: Draft, job: Job) -> int:
    every = gangs.members(draft, job)
    found = place_gang(every, views(draft), draft.now_s, draft.policies.scoring, {})
    return len(every) - found.found if isinstance(found, NotAllPlaced) else 0


def _wanting(draft: Draft, lowest: int) -> list[Job]:
    served = {draft.state.migrations[moving_id].room_for for moving_id in draft.state.moving}
    waiting = (draft.state.jobs[job_id] for job_id in draft.state.waiting)
    found = [
        job for job in waiting if job.spec.priority > lowest and job.id not in served and _seeks(draft, job)
    ]
    found.sort(key=draft.policies.ordering.key)
    return [job for job in found if accounts.held_back(draft, gangs.as_one(job)) is None]


def _seeks(draft: Draft, job: Job) -> bool:
    """Of a gang its first member does, for all, once all of them do."""
    if job.spec.seat is not None:
        return job.spec.seat.rank == 0 and gangs.all_seek(draft, job)
    migration = moving.migration_of(draft, job)
    return migration is None or migration.phase is MigrationPhase.SEEKING


def _crowds(draft: Draft, job: Job) -> Iterator[Crowd]:
    for node_id in sorted(draft.state.living):
        node = draft.state.nodes[node_id]
        if node.phase is not NodePhase.SHARING:
            continue
        if job.spec.seat is not None and refusal(job, view(draft, node_id), draft.now_s) is None:
            continue  # a member that has a place has it there
        runs = [run for run in _runs(draft, node_id) if _may_go(draft, node, run)]
        if runs:
            yield Crowd(
                node_id=node_id,
                candidates=[_candidate(draft, node, run) for run in runs],
                fits_without=partial(_fits_without, draft, job, node_id),
            )


def _may_go(draft: Draft, node: Node, run: Run) -> bool:
    wanted = node.wanted_by_s(run.held_gpus) is not None
    works = run.phase is RunPhase.RUNNING and run.over_s is None
    return works and draft.job_of(run).migration is None and not wanted


def _candidate(draft: Draft, node: Node, run: Run) -> Candidate:
    job = draft.job_of(run)
    wire_bps = max(reclaim_cap_bps(node.facts.lent_uplink_bps), 1.0)
    started_s = draft.now_s if run.started_s is None else run.started_s
    saved_s = started_s if job.durable is None else max(started_s, job.durable.at_s)
    last = draft.state.migrations.get(migration_id(job.id, job.migrations))
    return Candidate(
        run_id=run.id,
        priority=int(job.spec.priority),
        weight=_weight(job, len(run.held_gpus)),
        save_s=job.cost.save_s + 8.0 * job.cost.ship_bytes / wire_bps,
        restore_s=job.cost.restart_s,
        unsaved_s=draft.now_s - saved_s,
        remaining_s=_remaining_s(draft, job, run),
        settled_s=None if last is None else draft.now_s - (last.resumed_s or last.started_s),
        started_s=started_s,
    )


def _remaining_s(draft: Draft, job: Job, run: Run) -> float | None:
    if job.spec.expected_s is None:
        return None
    _, progress = draft.state.progress.get(run.id, (0, 0.0))
    done = max(progress, 0.0 if job.durable is None else job.durable.progress)
    return job.spec.expected_s * max(0.0, 1.0 - done)


def _fits_without(draft: Draft, job: Job, node_id: NodeId, gone: frozenset[RunId]) -> bool:
    return refusal(job, without(view(draft, node_id), draft, gone), draft.now_s) is None


def without(here: NodeView, draft: Draft, gone: frozenset[RunId]) -> NodeView:
    runs = [draft.state.runs[run_id] for run_id in gone]
    grants = [run.grant for run in runs]
    freed = {index for run in runs for index in run.held_gpus}
    freed -= {gpu.index for gpu in here.node.withheld}
    more = tuple(gpu for gpu in here.node.facts.lent_gpus if gpu.index in freed)
    return replace(
        here,
        free_gpus=tuple(sorted((*here.free_gpus, *more), key=lambda gpu: gpu.index)),
        free_cpus=here.free_cpus + sum(grant.cpus for grant in grants),
        free_memory_bytes=here.free_memory_bytes + sum(grant.memory_bytes for grant in grants),
        guests=here.guests - len(grants),
    )


def _carry_out(draft: Draft, job: Job, room: Room) -> None:
    node = draft.state.nodes[room.node_id]
    spare_bps = _spare_bps(draft, node)
    if spare_bps <= 0:
        return  # the uplink is busy saving others; next time
    names = ", ".join(sorted(str(draft.state.runs[one.run_id].job_id) for one in room.victims))
    draft.because(job.id, Why.ROOM_MADE, node=node.id, jobs=names)
    runs = [draft.state.runs[one.run_id] for one in room.victims]
    saving = {one.id for run in runs for one in gangs.beside(draft, run)}  # members beside them save too
    for victim in room.victims:
        run = draft.state.runs[victim.run_id]
        draft.because(run.job_id, Why.MADE_ROOM, job=job.id, node=node.id, unsaved_s=victim.unsaved_s)
        moving.flush(
            draft,
            run,
            Cause.PREEMPTED,
            rate_bps=spare_bps / len(saving),
            deadline_s=None,
            destination=None,
            reserved_gpus=(),
        )
        migration = moving.migration_of(draft, draft.state.jobs[run.job_id])
        assert migration is not None
        draft.put(replace(migration, room_for=job.id))


def _spare_bps(draft: Draft, node: Node) -> float:
    return reclaim_cap_bps(node.facts.lent_uplink_bps) - active_flush_bps(draft, node.id)


def _weight(job: Job, gpus: int) -> float:
    members = 1 if job.spec.seat is None else job.spec.seat.size  # who drives one of them out, drives all
    return members * max(1, gpus) * (1.0 + job.spec.priority)


def _lowest_running(draft: Draft) -> int | None:
    """Of the priorities. No run begins or ends without its node being touched, so it is remembered until
    then."""
    room = draft.state.room
    if room.lowest_at != room.version:
        room.lowest_at, room.lowest_running = room.version, _look_for_the_lowest(draft)
    return room.lowest_running


def _look_for_the_lowest(draft: Draft) -> int | None:
    runs, jobs, running = draft.state.runs, draft.state.jobs, RunPhase.RUNNING
    lowest: int | None = None
    for living in draft.state.living.values():
        for run_id in living:
            run = runs[run_id]
            priority = jobs[run.job_id].spec.priority
            if (lowest is None or priority < lowest) and run.phase is running:
                lowest = priority
    return lowest


def _runs(draft: Draft, node_id: NodeId) -> list[Run]:
    return [draft.state.runs[run_id] for run_id in sorted(draft.state.living.get(node_id, ()))]
