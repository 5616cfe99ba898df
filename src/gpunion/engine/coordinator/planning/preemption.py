"""Makes room for a job of a higher class that finds none: runs of lower classes leave, each in its way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from gpunion.domain.ids import JobId, NodeId, RunId, migration_id
from gpunion.domain.jobs.job import Job, Priority
from gpunion.domain.jobs.migration import Migration, MigrationPhase, Way
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import Request
from gpunion.engine.coordinator.capacity import view, views
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts
from gpunion.engine.coordinator.planning import leaving as ways
from gpunion.engine.coordinator.planning.departures import active_flush_bps
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs.save_timer import saved_s
from gpunion.engine.coordinator.runs.ways_to_leave import ways_to_leave
from gpunion.engine.coordinator.windows import promises
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.gangs.placing import NotAllPlaced, place_gang
from gpunion.policy.placement.filters import refusal
from gpunion.policy.preemption import Candidate, Crowd, Room

# Of those who wait, so many are looked at in one pass: each asks every node.
JOBS_AT_ONCE = 4
# Where one has a place within this, driving somebody out is no faster.
SOON_S = 60.0
_SENDING = (Way.DUMP, Way.SAVE)
_LEAVING = (MigrationPhase.FLUSHING, MigrationPhase.PARKING, MigrationPhase.PARKED)


def make_room(draft: Draft) -> None:
    """For jobs of a class that preempts at once, whenever they find no place; for others only now and then,
    when waiting jobs are looked at again, and for one of them at a time."""
    asking = [job for job in map(draft.state.jobs.__getitem__, draft.state.waiting) if _asks(draft, job)]
    if not asking:
        return
    lowest = _lowest_running(draft)
    if lowest is None or all(job.spec.priority <= lowest for job in asking):
        return
    looked_at = 0
    for job in _wanting(draft, asking, lowest):
        if looked_at == JOBS_AT_ONCE:
            return
        served = {one.room_for for one in making_room(draft)}
        if _held_back(draft, job, served):
            continue
        looked_at += 1
        if _room_is_coming(draft, job):
            continue
        rooms = _rooms(draft, job)
        for room in rooms:
            _carry_out(draft, job, room)
        if rooms and not draft.policies.preemption.at_once(job.spec.priority):
            return


def _asks(draft: Draft, job: Job) -> bool:
    if job.holds_back:
        return False
    return draft.look_again or draft.policies.preemption.at_once(job.spec.priority)


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
    if seat is not None and any(_has_to_wait(draft, room) for room in found):
        return []
    return found


def _missing(draft: Draft, job: Job) -> int:
    every = gangs.members(draft, job)
    found = place_gang(every, views(draft), draft.now_s, draft.policies.scoring, {})
    return len(every) - found.found if isinstance(found, NotAllPlaced) else 0


def _wanting(draft: Draft, asking: list[Job], lowest: int) -> list[Job]:
    served = {migration.room_for for migration in making_room(draft)}
    found = [
        job for job in asking if job.spec.priority > lowest and job.id not in served and seeks(draft, job)
    ]
    found.sort(key=draft.policies.ordering.key)
    return found


def _held_back(draft: Draft, job: Job, served: set[JobId | None]) -> bool:
    """Those for whom somebody goes already will hold what they asked for: a quota counts them as well."""
    waiting = draft.state.waiting
    to_come = [draft.state.jobs[one] for one in sorted(waiting & {one for one in served if one is not None})]
    return accounts.held_back(draft, gangs.as_one(job), [*map(gangs.as_one, to_come)]) is not None


def making_room(draft: Draft) -> Iterator[Migration]:
    """Whoever has been asked to go for somebody, and still has what it gives away."""
    for moving_id in draft.state.moving:
        migration = draft.state.migrations[moving_id]
        if migration.room_for is not None and migration.phase in _LEAVING:
            if draft.state.runs[migration.source_run].has_gpus:
                yield migration


def _room_is_coming(draft: Draft, job: Job) -> bool:
    """Whoever leaves already leaves enough for it as well: for whom they do may have found another place."""
    nodes = {migration.source_node for migration in making_room(draft)} if job.spec.seat is None else set()
    return any(_fits_without(draft, job, node_id, frozenset(), frozenset()) for node_id in sorted(nodes))


def seeks(draft: Draft, job: Job) -> bool:
    """Of a gang its first member does, for all, once all of them do. Nobody goes for one that could not begin
    yet, since its save is on its way, or that has a place already."""
    if job.awaits is not None or _has_a_place_soon(draft, job):
        return False
    if job.spec.seat is not None:
        return job.spec.seat.rank == 0 and gangs.all_seek(draft, job)
    migration = moving.migration_of(draft, job)
    return migration is None or migration.phase is MigrationPhase.SEEKING


def _has_a_place_soon(draft: Draft, job: Job) -> bool:
    """Of a wide one it may be far off, and who preempts at once does not wait for it."""
    if job.promised is None:
        return False
    return not promises.stays(job) or job.promised.by_s - draft.now_s <= SOON_S


def _crowds(draft: Draft, job: Job) -> Iterator[Crowd]:
    for node_id in sorted(draft.state.living):
        node = draft.state.nodes[node_id]
        if node.phase is not NodePhase.SHARING:
            continue
        if job.spec.seat is not None and refusal(job, view(draft, node_id), draft.now_s) is None:
            continue  # a member that has a place has it there
        runs = [run for run in _runs(draft, node_id) if may_go(draft, node, run)]
        if runs:
            yield Crowd(
                node_id=node_id,
                candidates=[candidate(draft, node, run) for run in runs],
                fits_without=partial(_fits_without, draft, job, node_id),
            )


def may_go(draft: Draft, node: Node, run: Run) -> bool:
    wanted = node.wanted_by_s(run.held_gpus) is not None
    works = run.phase is RunPhase.RUNNING and run.over_s is None and not run.parking
    return works and draft.job_of(run).migration is None and not wanted


def candidate(draft: Draft, node: Node, run: Run) -> Candidate:
    job = draft.job_of(run)
    last = draft.state.migrations.get(migration_id(job.id, job.migrations))
    return Candidate(
        run_id=run.id,
        priority=int(job.spec.priority),
        weight=_weight(job, len(run.held_gpus)),
        ways=ways_to_leave(draft, node, run),
        unsaved_s=draft.now_s - saved_s(draft, run),
        remaining_s=remaining_s(draft, job, run),
        settled_s=None if last is None else draft.now_s - (last.resumed_s or last.started_s),
        started_s=draft.now_s if run.started_s is None else run.started_s,
    )


def remaining_s(draft: Draft, job: Job, run: Run) -> float | None:
    if job.spec.expected_s is None:
        return None
    _, progress = draft.state.progress.get(run.id, (0, 0.0))
    done = max(progress, 0.0 if job.durable is None else job.durable.progress)
    return job.spec.expected_s * max(0.0, 1.0 - done)


def _fits_without(
    draft: Draft, job: Job, node_id: NodeId, gone: frozenset[RunId], parked: frozenset[RunId]
) -> bool:
    """What leaves already, and whom that is for, are counted too: no GPU is made free for two."""
    leaving = [one for one in making_room(draft) if one.source_node == node_id]
    parking = {one.source_run for one in leaving if one.phase is not MigrationPhase.FLUSHING}
    gone_too = {one.source_run for one in leaving} - parking
    here = without(view(draft, node_id), draft, gone | gone_too, parked | parking)
    taken = _promised(draft, node_id, job)
    here = replace(here, free_gpus=tuple(gpu for gpu in here.free_gpus if gpu.index not in taken))
    whom = {one.room_for for one in leaving if one.room_for is not None}
    for other in sorted(whom):
        if other in draft.state.waiting or moving.stands_still(draft, draft.state.jobs[other]):
            here = _less(here, draft.state.jobs[other].spec.request)
    return refusal(job, here, draft.now_s) is None


def _promised(draft: Draft, node_id: NodeId, job: Job) -> set[int]:
    """What is kept there for others of its class and of higher ones: it is theirs as soon as it is free."""
    others = (one for one in promises.on(draft, node_id) if one.id != job.id)
    kept = (one.promised for one in others if one.spec.priority >= job.spec.priority)
    return {index for place in kept if place is not None for index in place.gpus}


def _take_back(draft: Draft, job: Job, victims: Iterable[Run]) -> None:
    """What of it was promised to lower classes: else one of them would be on it before the job is."""
    for run in victims:
        for other in promises.on(draft, run.node_id):
            lower = other.spec.priority < job.spec.priority
            if lower and other.promised and not set(other.promised.gpus).isdisjoint(run.held_gpus):
                promises.drop(draft, other)


def _less(here: NodeView, promised: Request) -> NodeView:
    return replace(
        here,
        free_gpus=here.free_gpus[promised.gpus :],
        free_cpus=here.free_cpus - promised.cpus,
        free_memory_bytes=here.free_memory_bytes - promised.memory_bytes,
        guests=here.guests + 1,
    )


def without(
    here: NodeView, draft: Draft, gone: frozenset[RunId], parked: frozenset[RunId] = frozenset()
) -> NodeView:
    """Who is parked keeps its memory, and is a guest as before."""
    runs = [draft.state.runs[run_id] for run_id in sorted(gone | parked)]
    grants = [draft.state.runs[run_id].grant for run_id in gone]
    freed = {index for run in runs for index in run.held_gpus}
    freed -= {gpu.index for gpu in here.node.withheld}
    more = tuple(gpu for gpu in here.node.facts.lent_gpus if gpu.index in freed)
    return replace(
        here,
        free_gpus=tuple(sorted((*here.free_gpus, *more), key=lambda gpu: gpu.index)),
        free_cpus=here.free_cpus + sum(run.held_cpus for run in runs),
        free_memory_bytes=here.free_memory_bytes + sum(grant.memory_bytes for grant in grants),
        guests=here.guests - len(grants),
    )


def _carry_out(draft: Draft, job: Job, room: Room) -> None:
    node = draft.state.nodes[room.node_id]
    if _has_to_wait(draft, room):
        return  # the uplink is busy saving others; next time
    spare_bps = _spare_bps(draft, node)
    if _leaves_wire_for_the_next(draft, job, room) and spare_bps >= 2 * moving.SLOWEST_BPS:
        spare_bps /= 2  # the GPU is free before the save has been sent: the next urgent job need not wait
    runs = [draft.state.runs[one.run_id] for one in room.victims]
    victims = [draft.job_of(run) for run in runs]
    draft.because(
        job.id,
        Why.ROOM_MADE,
        node=node.id,
        jobs=", ".join(sorted(str(victim.id) for victim in victims)),
        classes=classes_in_words(victims),
        free_in_s=max(0.0 if one.leaving is None else one.leaving.free_s for one in room.victims),
    )
    _take_back(draft, job, runs)
    sending = [run for run, one in zip(runs, room.victims, strict=True) if not one.parks]
    saving = {one.id for run in sending for one in gangs.beside(draft, run)}  # members beside them save too
    for victim in room.victims:
        assert victim.leaving is not None
        run = draft.state.runs[victim.run_id]
        ways.leave(draft, run, job, victim.leaving.way, rate_bps=spare_bps / max(1, len(saving)))


def _has_to_wait(draft: Draft, room: Room) -> bool:
    sends = any(one.leaving is not None and one.leaving.way in _SENDING for one in room.victims)
    return sends and _spare_bps(draft, draft.state.nodes[room.node_id]) <= 0


def _leaves_wire_for_the_next(draft: Draft, job: Job, room: Room) -> bool:
    """Members of a gang are saved alike: they share all that is left of the wire."""
    alone = all(draft.job_of(draft.state.runs[one.run_id]).spec.seat is None for one in room.victims)
    return alone and draft.policies.preemption.at_once(job.spec.priority)


def classes_in_words(jobs: Iterable[Job]) -> str:
    return " and ".join(Priority(one).name.lower() for one in sorted({job.spec.priority for job in jobs}))


def _spare_bps(draft: Draft, node: Node) -> float:
    return reclaim_cap_bps(node.facts.lent_uplink_bps) - active_flush_bps(draft, node.id)


def _weight(job: Job, gpus: int) -> float:
    members = 1 if job.spec.seat is None else job.spec.seat.size  # who drives one of them out, drives all
    return members * max(1, gpus) * (1.0 + job.spec.priority)


def _lowest_running(draft: Draft) -> int | None:
    """Of the priorities."""
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
