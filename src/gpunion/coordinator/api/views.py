"""What routes show of the campus: domain values found in the state, as models."""

from __future__ import annotations

from collections import defaultdict

from gpunion.coordinator.credentials import fingerprint
from gpunion.coordinator.services import Campus
from gpunion.coordinator.usage.past_use import used_by, used_out
from gpunion.coordinator.whereabouts import Found
from gpunion.domain.ids import JobId, NodeId, migration_id, run_id
from gpunion.domain.jobs.checkpoint import Checkpoint
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import Job, JobPhase, JobSpec
from gpunion.domain.jobs.migration import Migration, Way
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import Node
from gpunion.domain.reasons.reason import Reason, Verdict
from gpunion.engine.coordinator.handlers import outputs as finishing
from gpunion.engine.coordinator.learned_history import Memories
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.state import CampusState
from gpunion.engine.coordinator.windows import reliability
from gpunion.ports.database import LoggedDecision
from gpunion.wire.v1 import campus as wire
from gpunion.wire.v1 import convert, jobs

# What is shown of a job that is held; no phase that it is in.
HELD = "held"


def job_out(campus: Campus, job: Job) -> jobs.JobOut:
    run = living_run(campus, job)
    migration = None if job.migration is None else campus.state.migrations.get(job.migration)
    to_start = run is not None and run.phase is RunPhase.ORDERED
    now = convert.JobNow(
        phase=shown_phase(campus.state, job),
        run=run,
        live=campus.state.progress.get(run.id) if run else None,
        preparing=campus.state.preparing.get(run.id) if run and to_start else None,
        saving=saving(campus.station, job, campus.clock.now_s()),
        finishing=None if run is None else finishing_out(run),
        moves=sum(
            one.went_elsewhere and moving.moved_off(campus.state, one) for one in migrations_of(campus, job)
        ),
        leaves_by_s=None if run is None else wanted_by_s(campus, run),
        room_for=None if migration is None else migration.room_for,
        pieces=pieces_out(job, run, campus.state.memories),
    )
    return convert.job_out(job, now)


def pieces_out(job: Job, run: Run | None, memories: Memories) -> jobs.PiecesOut | None:
    if not job.spec.atomizable:
        return None
    profile, subjob = job.profile or Profile(), None if run is None else run.subjob
    return jobs.PiecesOut(
        windows=profile.pieces + (run is not None),
        worked_s=profile.worked_s,
        overhead_s=profile.overhead_s,
        step_s=profile.step_s or None,
        gpu_memory_bytes=max(profile.peaks_bytes, default=None),
        believed=reliability.rho(memories, job),
        ends_at=convert.shown_time_or_none(None if subjob is None else subjob.ends_s),
        because=None if subjob is None else subjob.end.value,
    )


def held_out(held: HeldJob) -> jobs.JobOut:
    """As much as is known of it. One that was given up is over, for whoever asks."""
    job = _as_known(held)
    phase = JobPhase.CANCELLED if held.given_up else job.phase
    run = held.runs[-1] if held.runs else None
    shown = convert.job_out(job, convert.JobNow(phase=phase, run=run))
    return shown if held.given_up else shown.model_copy(update={"phase": HELD})


def held_detail(held: HeldJob) -> jobs.JobDetail:
    return convert.job_detail(held_out(held), _as_known(held).spec, held.runs, ())


def _as_known(held: HeldJob) -> Job:
    if held.job is not None:
        return held.job
    spec = JobSpec(name=held.id, command=(), owner="unknown")
    return Job(id=held.id, spec=spec, phase=JobPhase.PENDING, submitted_s=0.0, waiting_since_s=0.0)


def shown_phase(state: CampusState, job: Job) -> JobPhase:
    """A job that was refused, or whose machine went before it began, has not begun: it only waits. One whose
    program has ended does not run any more."""
    if job.phase is JobPhase.RUNNING:
        run = state.runs.get(run_id(job.id, job.epoch))
        return job.phase if run is None or run.over_s is None else JobPhase.FINISHING
    if job.phase is not JobPhase.MIGRATING or job.durable is not None:
        return job.phase
    began = any(run.started_s is not None for run in _runs_of(state, job))
    return job.phase if began else JobPhase.PENDING


def finishing_out(run: Run) -> jobs.FinishingOut | None:
    if run.over_s is None:
        return None
    trouble = finishing.trouble_in_words(run.output_trouble) if run.output_trouble else None
    return jobs.FinishingOut(since=convert.shown_time(run.over_s), trouble=trouble)


def job_detail(campus: Campus, job: Job) -> jobs.JobDetail:
    runs = _runs_of(campus.state, job)
    use = used_by(campus.state, job)
    used = None if use is None else used_out(use)
    detail = convert.job_detail(job_out(campus, job), job.spec, runs, migrations_of(campus, job))
    return detail.model_copy(update={"used": used})


def job_answer(campus: Campus, job: Job, reasons: tuple[Reason, ...]) -> jobs.JobAnswer:
    return jobs.JobAnswer(
        job=job_out(campus, job),
        reasons=[convert.reason_out(reason) for reason in reasons if _concerns(reason, job.id)],
        verdicts=verdicts(campus, job),
    )


def verdicts(campus: Campus, job: Job) -> list[jobs.VerdictOut]:
    """What every node says to the job; of the one that has it: that it fits, and not that it is now full."""
    if job.phase.over:
        return []
    run = living_run(campus, job)
    found = campus.station.engine.explain(campus.clock.now_s(), job.id)
    return [
        convert.verdict_out(Verdict(node=verdict.node, score=verdict.score))
        if run is not None and verdict.node == run.node_id
        else convert.verdict_out(verdict)
        for verdict in found
    ]


def waits(campus: Campus, job: Job) -> list[jobs.ReasonOut]:
    """What besides the machines decides when it gets its turn."""
    migration = None if job.migration is None else campus.state.migrations.get(job.migration)
    stands_still = migration is not None and migration.way is Way.PARK
    if not job.phase.waiting and not stands_still:
        return []
    found = campus.station.engine.waits_because(campus.clock.now_s(), job.id)
    return [convert.reason_out(reason) for reason in found]


def wanted_by_s(campus: Campus, run: Run) -> float | None:
    """When its machine is to be free of it: by a notice, or by its owner's terms."""
    node = campus.state.nodes.get(run.node_id)
    if node is None:
        return None
    wanted = (node.wanted_by_s(run.held_gpus), run.wanted_by_s)
    return min((at_s for at_s in wanted if at_s is not None), default=None)


def living_run(campus: Campus, job: Job) -> Run | None:
    run = campus.state.runs.get(run_id(job.id, job.epoch))
    return run if run is not None and run.living else None


def _runs_of(state: CampusState, job: Job) -> list[Run]:
    found = (state.runs.get(run_id(job.id, epoch)) for epoch in range(1, job.epoch + 1))
    return [run for run in found if run is not None]


def migrations_of(campus: Campus, job: Job) -> list[Migration]:
    numbers = range(1, job.migrations + 1)
    found = (campus.state.migrations.get(migration_id(job.id, number)) for number in numbers)
    return [migration for migration in found if migration is not None]


def checkpoints_of(
    campus: Campus, job_id: JobId, whereabouts: Found, asked_s: float
) -> list[jobs.CheckpointOut]:
    found = [checkpoint for checkpoint in campus.state.checkpoints.values() if checkpoint.job_id == job_id]
    found.sort(key=lambda checkpoint: (checkpoint.requested_s, checkpoint.id))
    runs, ready_on = campus.state.runs, defaultdict[str, list[str]](list)
    job = campus.state.jobs[job_id]
    for copy in job.copies:
        if copy.there:
            ready_on[copy.checkpoint_id].append(copy.node_id)
    return [
        convert.checkpoint_out(
            one,
            runs[one.run_id].node_id,
            ready_on[one.id],
            places=whereabouts.places.get(one.id, []),
            unknown=whereabouts.unknown,
            asked_s=asked_s,
            job=job,
            under_way=under_way(campus.station, one, campus.clock.now_s()),
        )
        for one in found
    ]


def saving(station: PureCoordinator, job: Job, now_s: float) -> jobs.UnderWayOut | None:
    """Its newest save, while that is under way; also one that is sent after its run has ended."""
    if job.phase.over:
        return None
    state = station.engine.state
    unsettled = [state.checkpoints[one] for one in state.unsettled.get(run_id(job.id, job.epoch), ())]
    newest = max(unsettled, key=lambda one: (one.requested_s, one.id), default=None)
    return None if newest is None else under_way(station, newest, now_s)


def under_way(station: PureCoordinator, checkpoint: Checkpoint, now_s: float) -> jobs.UnderWayOut | None:
    """How far a save is that is not durable yet, as far as its machine says so and is there to say it."""
    if checkpoint.phase not in convert.UNDER_WAY:
        return None
    link = station.links.get(station.engine.state.runs[checkpoint.run_id].node_id)
    heard_s = None if link is None else link.saves.heard_s
    if link is None or heard_s is None or not link.saves.fresh(now_s, station.timing.heartbeat_s):
        return convert.nobody_knows(heard_s)
    note = link.saves.of(checkpoint.run_id, checkpoint.id)
    if note is None:
        return None
    for_s = now_s - checkpoint.requested_s if note.for_s is None else note.for_s + now_s - heard_s
    return convert.under_way_out(note, for_s=max(0.0, for_s), heard_s=heard_s)


def node_out(campus: Campus, node: Node) -> wire.NodeOut:
    credential = campus.keyring.of_node(node.id)
    living = campus.state.living.get(node.id, ())
    return convert.node_out(
        node,
        now_s=campus.clock.now_s(),
        runs=[campus.state.runs[run] for run in living],
        connected=campus.switchboard.connected(NodeId(node.id)),
        fingerprint=None if credential is None else fingerprint(credential),
        last_heard_s=campus.station.leases.last_heard_s(node.id),
    )


def decision_out(line: LoggedDecision) -> wire.DecisionOut:
    return wire.DecisionOut(
        seq=line.seq,
        at=convert.shown_time(line.at_s),
        event=line.event,
        subjects=list(line.subjects),
        reasons=[convert.reason_out(reason) for reason in line.reasons],
        effects=list(line.effects),
    )


def _concerns(reason: Reason, job_id: JobId) -> bool:
    """A decision may place other jobs too; their reasons are not this caller's."""
    return reason.subject == job_id
