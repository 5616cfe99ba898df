"""Checkpoints: when they are due, and what their arrival or failure means."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import MigrationId, RunId
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase, CheckpointTrouble
from gpunion.domain.jobs.job import DurablePoint, Job
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase, Way
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import NodePhase, Pace
from gpunion.domain.protocol.reports import Capture, CheckpointCaptured, CheckpointDurable, CheckpointFailed
from gpunion.domain.protocol.timers import LastSaveOverdue
from gpunion.domain.reasons.reason import Why
from gpunion.domain.reasons.wording import TROUBLE_IN_WORDS
from gpunion.domain.system_tier import Tier
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.handlers import outputs as finishing
from gpunion.engine.coordinator.handlers import parked_runs
from gpunion.engine.coordinator.planning import gang_moves, staging
from gpunion.engine.coordinator.runs import evacuation
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs.checkpoint_fallback import to_go_back_to
from gpunion.engine.coordinator.runs.save_timer import set_checkpoint_timer
from gpunion.engine.coordinator.windows import between, ends
from gpunion.lifecycle.checkpoint import CHECKPOINT
from gpunion.policy.bandwidth import periodic_rate_bps

# Half of a new measurement counts: costs follow the job's growth within a few saves.
_SMOOTHING = 0.5
_NOBODY_WANTS_IT = (NodePhase.SHARING, NodePhase.PAUSED)
_OPEN = (CheckpointPhase.REQUESTED, CheckpointPhase.CAPTURED)


def due(draft: Draft, run_id: RunId) -> None:
    run = draft.state.runs.get(run_id)
    if run is None or run.phase is not RunPhase.RUNNING or run.parking:
        return
    in_gang = draft.job_of(run).spec.seat is not None
    if run.over_s is not None and not in_gang:
        return  # what has ended does nothing more that could be saved
    for one in gangs.running_together(draft, draft.job_of(run)) if in_gang else [run]:
        node = draft.state.nodes[one.node_id]
        rate_bps = periodic_rate_bps(node.facts.lent_uplink_bps, len(draft.state.living[node.id]))
        moving.request_checkpoint(draft, one, final=False, by_s=None, rate_bps=rate_bps)


def captured(draft: Draft, report: CheckpointCaptured) -> None:
    checkpoint = _known(draft, report)
    if checkpoint is None or checkpoint.phase is not CheckpointPhase.REQUESTED:
        return
    draft.put(
        replace(
            checkpoint,
            phase=CHECKPOINT.check(checkpoint.id, checkpoint.phase, CheckpointPhase.CAPTURED),
            step=report.step,
            progress=report.progress,
            stall_s=report.stall_s,
            captured_s=draft.now_s,
            tier=report.tier,
            tier_why=report.tier_why,
            kind=_kind(draft, report.run_id, report.tier),
            gpu=_gpu(draft, report.run_id, report.tier),
            size_bytes=report.size_bytes,
            counted=report.counted,
        )
    )
    _learn_pace(draft, report)
    if report.tier_why:
        draft.because(report.job_id, Why.TIER_FELL_BACK, trouble=report.tier_why)
    job = draft.state.jobs[report.job_id]
    learned = _with_cost_of(job, report)
    if learned is not job:
        draft.put(learned)
    migration = moving.migration_of(draft, learned)
    if migration is not None and migration.flush == checkpoint.id and migration.stopped_s is None:
        draft.put(replace(migration, stopped_s=draft.now_s - report.stall_s))
        _stop_if_it_works_on(draft, checkpoint)


def _learn_pace(draft: Draft, report: CheckpointCaptured) -> None:
    """Of dumps on that machine; of one that stood still anyway nobody knows how long it took."""
    node = draft.state.nodes[draft.state.runs[report.run_id].node_id]
    if report.tier is Tier.SYSTEM and report.stall_s > 0.0:
        known = node.dumps or Pace(took_s=report.stall_s, size_bytes=report.size_bytes)
        draft.put(replace(node, dumps=known.with_seen(report.stall_s, report.size_bytes)))


def _stop_if_it_works_on(draft: Draft, checkpoint: Checkpoint) -> None:
    """A gang's member that was saved beside others on its wire: its last save was asked for as any other."""
    run = draft.state.runs[checkpoint.run_id]
    if not checkpoint.final and run.phase is RunPhase.LEAVING:
        gang_moves.stop(draft, run)


def durable(draft: Draft, report: CheckpointDurable) -> None:
    checkpoint = _known(draft, report)
    if checkpoint is None or checkpoint.phase not in _OPEN:
        return
    arrived = replace(
        checkpoint,
        phase=CHECKPOINT.check(checkpoint.id, checkpoint.phase, CheckpointPhase.DURABLE),
        step=report.step,
        progress=report.progress,
        size_bytes=report.size_bytes,
        shipped_bytes=report.shipped_bytes,
        durable_s=draft.now_s,
    )
    job = draft.state.jobs[report.job_id]
    if report.capture is not None:
        arrived = _as_captured(draft, arrived, report.capture)
        job = _with_cost_of(job, report.capture)
    draft.put(arrived)
    _advance(draft, job, report)
    if report.elsewhere:
        draft.because(job.id, Why.SAVED_ELSEWHERE, trouble=report.elsewhere)
    job = draft.state.jobs[report.job_id]
    between.settled(draft, report.checkpoint_id, job, None)
    migration = moving.migration_of(draft, job)
    if migration is not None and migration.flush == report.checkpoint_id:
        draft.put(replace(migration, shipped_bytes=report.shipped_bytes))
        run = draft.state.runs[migration.source_run]
        if not run.living:
            moving.seek(draft, draft.state.migrations[migration.id], fell_back=None)
    elif not report.final:
        _next(draft, report.run_id)
        staging.consider(draft, report.run_id)


def failed(draft: Draft, report: CheckpointFailed) -> None:
    checkpoint = _known(draft, report)
    if checkpoint is None or checkpoint.phase not in _OPEN:
        return
    phase = CHECKPOINT.check(checkpoint.id, checkpoint.phase, CheckpointPhase.FAILED)
    draft.put(replace(checkpoint, phase=phase, trouble=report.trouble))
    asked, over = draft.state.runs[report.run_id], report.trouble is CheckpointTrouble.OVER
    if over:
        # Nothing went wrong, but its user sees a job that runs and prints nothing any more.
        finishing.program_ended(draft, asked)
    elif report.trouble is not CheckpointTrouble.NO_GUEST or asked.living:
        # Else it was asked for after the end, since that was not known here yet: nothing went wrong.
        draft.because(report.job_id, Why.SAVE_FAILED, checkpoint=checkpoint.id, trouble=_told(report))
    job = draft.state.jobs[report.job_id]
    between.settled(draft, checkpoint.id, job, report.trouble)
    if checkpoint.final:
        ends.not_saved(draft, asked)
    migration = moving.migration_of(draft, job)
    if migration is None or migration.flush != checkpoint.id:
        if not checkpoint.final and not over:  # what has ended does nothing more that could be saved
            _next(draft, report.run_id)
        return
    run = draft.state.runs[migration.source_run]
    if not run.living:
        moving.seek(draft, migration, fell_back=TROUBLE_IN_WORDS[report.trouble])
    elif run.phase is not RunPhase.LEAVING or not _nobody_wants_it(draft, run):
        return
    elif not over and _leaves_all_the_same(draft, job, migration):
        durable = draft.durable_step(job.id)
        draft.because(job.id, Why.LEFT_UNSAVED, node=run.node_id, durable=durable)
        gang_moves.stop(draft, run)
    else:
        if run.gave_place:
            run = replace(run, ways_failed=(*run.ways_failed, Way.DUMP))
        moving.stay(draft, run)
        ends.stays(draft, run, report.trouble)
        set_checkpoint_timer(draft, run)


def _leaves_all_the_same(draft: Draft, job: Job, migration: Migration) -> bool:
    """Its user said that it may, and whoever it makes room for still needs that."""
    allowed = job.spec.preemptible and job.spec.seat is None
    return allowed and migration.cause is Cause.PREEMPTED and migration.room_for in draft.state.waiting


def flush_overdue(draft: Draft, migration_id: str) -> None:
    """The agent has not said what became of the last save. If the run is gone, do not wait for ever."""
    migration = draft.state.migrations.get(MigrationId(migration_id))
    if migration is not None and migration.phase is MigrationPhase.PARKING:
        parked_runs.no_word(draft, migration)
        return
    if migration is None or migration.phase is not MigrationPhase.FLUSHING:
        return
    run = draft.state.runs[migration.source_run]
    if run.living:
        # Its end will come: by its agent's word, or by the fence if the agent is silent.
        draft.set_timer(LastSaveOverdue(migration_id=migration.id), draft.now_s + moving.FLUSH_GUARD_S)
        return
    moving.seek(draft, migration, fell_back="no word of it")


def _nobody_wants_it(draft: Draft, run: Run) -> bool:
    node = draft.state.nodes[run.node_id]
    return node.phase in _NOBODY_WANTS_IT and node.wanted_by_s(run.held_gpus) is None


def _known(
    draft: Draft, report: CheckpointCaptured | CheckpointDurable | CheckpointFailed
) -> Checkpoint | None:
    """The checkpoint's record; made here where the agent took it by itself. None for an older epoch."""
    job = draft.state.jobs[report.job_id]
    if report.epoch != job.epoch:
        draft.came_too_late(report.job_id, report.epoch)
        return None
    if job.phase.over:
        return None  # a periodic save that the end overtook: nobody's story
    known = draft.state.checkpoints.get(report.checkpoint_id)
    if known is not None:
        return known
    return Checkpoint(
        id=report.checkpoint_id,
        job_id=report.job_id,
        run_id=report.run_id,
        epoch=report.epoch,
        phase=CheckpointPhase.REQUESTED,
        requested_s=draft.now_s,
        final=True,
    )


def _advance(draft: Draft, job: Job, report: CheckpointDurable) -> None:
    """The durable step only ever moves forward."""
    if job.spec.seat is not None:
        learned = _learned(job, job.cost.ship_bytes, report.shipped_bytes)
        copies = job.copies and staging.behind(job.copies, report.shipped_bytes)
        job = replace(job, cost=replace(job.cost, ship_bytes=int(learned)), copies=copies)
        draft.put(job)
        gangs.advance(draft, job)
        return
    if job.durable is not None and report.step < job.durable.step:
        draft.because(job.id, Why.STEP_BEHIND, step=report.step, durable=job.durable.step)
        return
    saved = draft.state.checkpoints[report.checkpoint_id]
    ship_bytes = job.cost.ship_bytes
    if saved.tier is job.tier or saved.tier is Tier.APP:  # else it was parked: its next save is none of that
        ship_bytes = int(_learned(job, ship_bytes, report.shipped_bytes))
    point = DurablePoint(
        checkpoint_id=report.checkpoint_id,
        step=report.step,
        progress=report.progress,
        at_s=draft.now_s,
        tier=saved.tier,
        kind=saved.kind,
        gpu=saved.gpu,
        size_bytes=report.size_bytes,
    )
    copies = job.copies and staging.behind(job.copies, report.shipped_bytes)
    cost = job.cost if ship_bytes == job.cost.ship_bytes else replace(job.cost, ship_bytes=ship_bytes)
    earlier = to_go_back_to(job)
    job = replace(job, durable=point, earlier=earlier, cost=cost, copies=copies, went_back=0)
    kept = staging.kept_where_it_runs(draft, job, report.run_id)
    draft.put(job if kept is job.copies else replace(job, copies=kept))
    if point.tier is Tier.SYSTEM:
        draft.because(job.id, Why.SAVED_WHOLE, step=report.step, bytes=report.shipped_bytes)
    else:
        draft.because(job.id, Why.SAVED, step=report.step, bytes=report.shipped_bytes)


def _as_captured(draft: Draft, checkpoint: Checkpoint, capture: Capture) -> Checkpoint:
    """What an agent says of a save once it has arrived, where that did not take long."""
    return replace(
        checkpoint,
        stall_s=capture.stall_s,
        captured_s=max(checkpoint.requested_s, draft.now_s - capture.sent_for_s),
        tier=capture.tier,
        kind=_kind(draft, checkpoint.run_id, capture.tier),
        gpu=_gpu(draft, checkpoint.run_id, capture.tier),
        counted=capture.counted,
    )


def _with_cost_of(job: Job, seen: CheckpointCaptured | Capture) -> Job:
    """The same job where the save took as long as ever, as most do."""
    if seen.stall_s <= 0:  # a program that had ended by itself stood still for nobody
        return job
    stall_s = _learned(job, job.cost.stall_s, seen.stall_s)
    capture_s = _learned(job, job.cost.save_s, max(seen.capture_s, seen.stall_s))
    if stall_s == job.cost.stall_s and capture_s == job.cost.capture_s:
        return job
    return replace(job, cost=replace(job.cost, stall_s=stall_s, capture_s=capture_s))


def _kind(draft: Draft, run_id: RunId, tier: Tier) -> str:
    """Of the machine that dumped it, as far as it is a dump."""
    run = draft.state.runs.get(run_id)
    if run is None or tier is not Tier.SYSTEM:
        return ""
    return draft.state.nodes[run.node_id].facts.system.kind


def _gpu(draft: Draft, run_id: RunId, tier: Tier) -> str:
    """Its model, of a dump: a driver moves what is on a card only to another like it. Declared ones hold
    nothing. A guest on several real ones is not dumped."""
    run = draft.state.runs.get(run_id)
    if run is None or tier is not Tier.SYSTEM:
        return ""
    cards = draft.state.nodes[run.node_id].facts.capacity.gpus
    real = (gpu.model for gpu in cards if gpu.index in run.grant.gpu_indices and not gpu.declared)
    return next(real, "")


def _told(report: CheckpointFailed) -> str:
    told = TROUBLE_IN_WORDS[report.trouble]
    told = f"{told} ({report.places})" if report.places else told
    return f"{told}, nor could it be dumped whole ({report.detail})" if report.detail else told


def _learned(job: Job, known: float, measured: float) -> float:
    """What nobody has measured yet is a guess and counts for nothing: half of a guess made flushes that
    could not fit look as if they did."""
    if job.durable is None:
        return measured
    return _SMOOTHING * known + (1 - _SMOOTHING) * measured


def _next(draft: Draft, run_id: RunId) -> None:
    run = draft.state.runs.get(run_id)
    if run is not None and run.phase is RunPhase.RUNNING and not run.parking:
        set_checkpoint_timer(draft, run)
        evacuation.look(draft, run.node_id)
