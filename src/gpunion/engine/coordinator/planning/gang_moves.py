"""After every event: what happened to one member of a gang happens to all (`policy/gangs/conduct.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpunion.domain.ids import JobId, NodeId, checkpoint_id
from gpunion.domain.jobs.checkpoint import CheckpointPhase
from gpunion.domain.jobs.gang import leader_of
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase
from gpunion.domain.jobs.run import EndReason, Run, RunPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.timers import SaveDue, StartOverdue
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning.departures import active_flush_bps
from gpunion.engine.coordinator.runs import gang_fallback as gang_back
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.run import RUN
from gpunion.policy.bandwidth import periodic_rate_bps, reclaim_cap_bps
from gpunion.policy.gangs.conduct import Act, Standing, conduct

_STANDINGS = {
    JobPhase.PENDING: Standing.WAITING,
    JobPhase.MIGRATING: Standing.WAITING,
    JobPhase.STARTING: Standing.STARTING,
    JobPhase.RUNNING: Standing.RUNNING,
    JobPhase.LEAVING: Standing.LEAVING,
}
_WORDS = {
    Cause.OWNER_RECLAIM: "its owner wants it back",
    Cause.OWNER_KILL: "its owner took it back without notice",
    Cause.SICK_GPU: "a GPU of it is out of order",
    Cause.NODE_LOST: "it was not heard of any more",
    Cause.LEASE_ENDED: "it lost touch with the coordinator",
    Cause.HOMECOMING: "it goes home",
    Cause.PREEMPTED: "it makes room for a job of a higher class",
    Cause.START_TROUBLE: "it could not be started there",
    Cause.SELF_SAVED: "it saved itself and ended",
    Cause.GUEST_LOST: "it died there",
    Cause.OUTPUT_LOST: "it had finished, but what it made could not be kept",
    Cause.SPOILED_SAVE: "it could not go on from what was saved",
    Cause.GANG: "another member had to go",
}
# What keeps a member from going on that had a place again already. Others ended as they were told to.
_ON_THE_WAY = {
    EndReason.START_FAILED: Cause.START_TROUBLE,
    EndReason.REFUSED: Cause.START_TROUBLE,
    EndReason.KILLED_BY_OWNER: Cause.OWNER_KILL,
    EndReason.DEADLINE: Cause.OWNER_RECLAIM,
    EndReason.NODE_LOST: Cause.NODE_LOST,
    EndReason.LEASE_ENDED: Cause.LEASE_ENDED,
    EndReason.SICK_GPU: Cause.SICK_GPU,
    EndReason.GUEST_LOST: Cause.GUEST_LOST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """Whose going takes all along, from where, and why."""

    rank: int
    node: NodeId
    because: str


def follow(draft: Draft) -> None:
    for leader in _touched(draft):
        _follow(draft, gangs.members(draft, draft.state.jobs[leader]))


def stop(draft: Draft, run: Run) -> None:
    """Ends one member's run without a new save: nobody could go on from it."""
    for kind in (SaveDue, StartOverdue):
        draft.cancel_timer(kind(run_id=run.id))
    draft.put(replace(run, phase=RUN.check(run.id, run.phase, RunPhase.STOPPING)))
    draft.order(run.node_id, StopRun(run_id=run.id, job_id=run.job_id, epoch=run.epoch, spares_save=True))


def _touched(draft: Draft) -> Iterable[JobId]:
    found = {leader_of(job.id, job.spec.seat): None for job in draft.changed_jobs() if job.spec.seat}
    return tuple(found)


def _follow(draft: Draft, members: list[Job]) -> None:
    if any(one.phase.over or one.phase is JobPhase.STOPPING for one in members):
        return  # its user has stopped it, or it is over: all were dealt with at once
    standings = [_standing(draft, one, members) for one in members]
    acts = conduct(standings)
    if Act.GO_BACK in acts:
        _go_back(draft, members, members[standings.index(Standing.SPOILED)])
        return
    going = [one for one, act in zip(members, acts, strict=True) if act is Act.SAVE_AND_GO]
    rates = _rates(draft, going)
    for job, act in zip(members, acts, strict=True):
        match act:
            case Act.STAY:
                pass
            case Act.SAVE_AND_GO:
                _save_and_go(draft, job, members, rates[job.id])
            case Act.STOP:
                _stop(draft, job, members)
            case Act.RUN_AGAIN:
                _run_again(draft, job, members)
            case Act.SUCCEED | Act.FAIL | Act.GO_BACK:
                _end(draft, job, members)


def _standing(draft: Draft, job: Job, members: list[Job]) -> Standing:
    if job.phase is JobPhase.FINISHING:
        if not job.failure:
            return Standing.ENDED
        spoiled = gang_back.blames_its_save(draft, job) and gang_back.before(draft, members) is not None
        return Standing.SPOILED if spoiled else Standing.FAILED
    run = moving.current_run(draft, job)
    if run is not None and run.phase is RunPhase.STOPPING:
        return Standing.STOPPING
    return _STANDINGS[job.phase]


def _rates(draft: Draft, going: list[Job]) -> dict[JobId, float]:
    """What each may use of its machine's uplink for its last save, beside those who save there already."""
    where = {job.id: _run(draft, job).node_id for job in going}
    nodes = list(where.values())
    spare = {}
    for node_id in sorted(set(nodes)):
        cap_bps = reclaim_cap_bps(draft.state.nodes[node_id].facts.lent_uplink_bps)
        spare[node_id] = max(0.0, cap_bps - active_flush_bps(draft, node_id)) / nodes.count(node_id)
    return {job_id: spare[node_id] for job_id, node_id in where.items()}


def _save_and_go(draft: Draft, job: Job, members: list[Job], rate_bps: float) -> None:
    run = _run(draft, job)
    if _last_save_failed(draft, run, members):
        _stop(draft, job, members)
        return
    blame = _blame(draft, members)
    draft.because(
        job.id, Why.GANG_SAVES, rank=blame.rank, node=blame.node, because=blame.because, size=len(members)
    )
    node = draft.state.nodes[run.node_id]
    # Nobody wants this machine: its place is kept, and the member goes on there unless something better is.
    stays = node.phase is NodePhase.SHARING
    # Where the uplink is promised to others it is saved and sent as it is now and then, beside them: without
    # this member the saves of all the others would count for nothing.
    promised_away = rate_bps <= 0.0
    if promised_away:
        rate_bps = periodic_rate_bps(node.facts.lent_uplink_bps, len(draft.state.living[node.id]))
    moving.abandon(draft, job)  # the way without a save that a notice too short for one had left it
    moving.flush(
        draft,
        run,
        Cause.GANG,
        rate_bps=rate_bps,
        deadline_s=None,
        destination=run.node_id if stays else None,
        reserved_gpus=run.held_gpus if stays else (),
        final=not promised_away,
    )


def _last_save_failed(draft: Draft, run: Run, members: list[Job]) -> bool:
    """The one that was asked for since the first of them is leaving."""
    last = draft.state.checkpoints.get(checkpoint_id(run.id, run.checkpoints))
    if last is None or last.phase is not CheckpointPhase.FAILED:
        return False
    leaving = (moving.migration_of(draft, one) for one in members if one.phase is JobPhase.LEAVING)
    since_s = min((move.started_s for move in leaving if move is not None), default=math.inf)
    return last.final or last.requested_s >= since_s


def _stop(draft: Draft, job: Job, members: list[Job]) -> None:
    moving_on = any(one.phase in (JobPhase.LEAVING, JobPhase.MIGRATING) for one in members)
    failed = None if moving_on else next((one for one in members if one.failure), None)
    if failed is not None and failed.spec.seat is not None:
        rank, detail = failed.spec.seat.rank, failed.failure
        draft.because(job.id, Why.GANG_FAILS, rank=rank, detail=detail, size=len(members))
    else:
        _say(draft, job, Why.GANG_STOPS, members)
    stop(draft, _run(draft, job))


def _run_again(draft: Draft, job: Job, members: list[Job]) -> None:
    _say(draft, job, Why.GANG_AGAIN, members)
    last = gangs.newest_run(draft, job)
    assert last is not None
    job = _as_waiting(draft, job)
    save = gangs.completing_save(draft, job, last)
    phase = MigrationPhase.SEEKING if save is None else MigrationPhase.FLUSHING
    migration = moving.begin(draft, job, last, Cause.GANG, phase=phase, stopped_s=draft.now_s)
    if save is not None:
        moving.await_save(draft, migration, save)


def _go_back(draft: Draft, members: list[Job], blaming: Job) -> None:
    """All have ended, and what `blaming` was given is why: it is of no use to the others either."""
    for job in gang_back.all_back(draft, members, blaming, Why.GANG_GOES_BACK, blaming.failure):
        last = gangs.newest_run(draft, job)
        assert last is not None
        cause = Cause.SPOILED_SAVE if job.id == blaming.id else Cause.GANG
        stopped_s = draft.now_s if last.ended_s is None else last.ended_s
        waiting = _as_waiting(draft, job)
        moving.begin(draft, waiting, last, cause, phase=MigrationPhase.SEEKING, stopped_s=stopped_s)


def _as_waiting(draft: Draft, job: Job) -> Job:
    """It had ended, and runs again."""
    return replace(
        job,
        phase=JOB.check(job.id, job.phase, JobPhase.MIGRATING),
        waiting_since_s=draft.now_s,
        failure="",
        exit_code=None,
        output=None,
    )


def _end(draft: Draft, job: Job, members: list[Job]) -> None:
    failed = next((one for one in members if one.failure), None)
    phase = JobPhase.SUCCEEDED if failed is None else JobPhase.FAILED
    draft.put(replace(job, phase=JOB.check(job.id, job.phase, phase), ended_s=draft.now_s))
    if failed is None:
        last = gangs.newest_run(draft, job)
        assert last is not None
        draft.because(job.id, Why.FINISHED, node=last.node_id, moves=moving.moves(draft, job))
    elif job.failure:
        draft.because(job.id, Why.FAILED, detail=gang_back.in_words(draft, job))
    elif failed.spec.seat is not None:
        rank, words = failed.spec.seat.rank, gang_back.in_words(draft, failed)
        draft.because(job.id, Why.FAILED, detail=f"member {rank} of its gang failed: {words}")


def _say(draft: Draft, job: Job, why: Why, members: list[Job]) -> None:
    blame = _blame(draft, members)
    durable = draft.durable_step(job.id)
    draft.because(
        job.id,
        why,
        rank=blame.rank,
        node=blame.node,
        because=blame.because,
        size=len(members),
        durable=durable,
    )


def _blame(draft: Draft, members: list[Job]) -> Blame:
    """The member that was interrupted for a reason of its own, or the first that was at all."""
    found = []
    for rank, one in enumerate(members):
        migration = moving.migration_of(draft, one)
        if migration is not None:
            node, cause = _last_interrupted(draft, one, migration)
            found.append((cause is Cause.GANG, Blame(rank=rank, node=node, because=_WORDS[cause])))
    return min(found, key=lambda pair: (pair[0], pair[1].rank))[1]


def _last_interrupted(draft: Draft, job: Job, migration: Migration) -> tuple[NodeId, Cause]:
    """Where, and why. Who is interrupted once more before it runs again is still on the same way."""
    last = gangs.newest_run(draft, job)
    cause = None if last is None or last.end_reason is None else _ON_THE_WAY.get(last.end_reason)
    if last is None or last.id == migration.source_run or cause is None:
        return migration.source_node, migration.cause
    return last.node_id, Cause.SPOILED_SAVE if last.restored_from in job.spoiled else cause


def _run(draft: Draft, job: Job) -> Run:
    run = moving.current_run(draft, job)
    assert run is not None
    return run
