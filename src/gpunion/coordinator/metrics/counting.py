"""What one committed decision adds to the counters.

It is looked at before memory follows the store, so that each record is met beside what it was: an ended run
that changes once more has not ended twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpunion.coordinator.metrics import series
from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Migration, MigrationPhase
from gpunion.domain.jobs.run import EndReason, Run, RunPhase
from gpunion.domain.jobs.window import Subjob
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.events import NodeReported
from gpunion.domain.protocol.reports import NodeReclaimed, RunEnded
from gpunion.engine.coordinator.state import CampusState
from gpunion.engine.coordinator.windows.between import is_over
from gpunion.ports.metrics import Metrics, Series

_CLASS_AT_ONCE = "high"
# Longer than a day tells no more than a day, and one machine that lies about it does not set the sum of all.
RECLAIM_MAX_S = 86_400.0


@dataclass(slots=True)
class _Kill:
    at_s: float
    living: set[RunId]  # who was there and is not known to be gone
    heard: bool = True  # False: nobody told that they are gone, so nobody knows when


class Counting:
    def __init__(self, metrics: Metrics, elapsed_s: Callable[[], float] = time.perf_counter) -> None:
        self._metrics = metrics
        self._elapsed_s = elapsed_s
        self._room_begun_s: dict[JobId, float] = {}  # for jobs whose program does not run yet
        self._killed: dict[NodeId, _Kill] = {}

    @contextmanager
    def timed(self, what: Series) -> Iterator[None]:
        began_s = self._elapsed_s()
        try:
            yield
        finally:
            self._metrics.observe(what, self._elapsed_s() - began_s)

    def committed(self, before: CampusState, commit: Commit) -> None:
        event = commit.event
        latest = {(type(record), record.id): record for record in commit.decision.changes}
        if isinstance(event, NodeReported) and isinstance(event.report, NodeReclaimed):
            nodes = [one for one in latest.values() if isinstance(one, Node) and one.id == event.node_id]
            self._reclaimed(before, commit.at_s, nodes, event.report)
        report = event.report if isinstance(event, NodeReported) else None
        for record in latest.values():
            if isinstance(record, Job):
                self._job(before.jobs.get(record.id), record)
            elif isinstance(record, Run):
                former, job = before.runs.get(record.id), before.jobs.get(record.job_id)
                self._run(former, record, job, report if isinstance(report, RunEnded) else None)
                self._gone_for_a_kill(record, commit.at_s)
            elif isinstance(record, Migration):
                runs = [one for one in latest.values() if isinstance(one, Run)]
                self._migration(before, record, runs)
            elif isinstance(record, Checkpoint):
                self._checkpoint(before.checkpoints.get(record.id), record)

    def _reclaimed(self, before: CampusState, now_s: float, after: list[Node], report: NodeReclaimed) -> None:
        """Once a reclaim: what was reclaimed already is not reclaimed by being said again."""
        for node in after:
            if _reclaimed_of(node) <= _reclaimed_of(before.nodes.get(node.id)):
                continue
            if report.killed and (living := before.living.get(node.id, ())):
                self._killed[node.id] = _Kill(now_s, set(living))
            else:
                mode = "kill" if report.killed else "notice"
                self._metrics.observe(series.RECLAIM, min(RECLAIM_MAX_S, report.freed_after_s), (mode,))

    def _gone_for_a_kill(self, run: Run, now_s: float) -> None:
        """A machine tells of its owner's kill at once, and of its guests' ends as they come."""
        kill = self._killed.get(run.node_id)
        if kill is None or run.phase is not RunPhase.ENDED or run.id not in kill.living:
            return
        kill.living.discard(run.id)
        kill.heard = kill.heard and run.end_reason is not EndReason.NODE_LOST
        if not kill.living:
            del self._killed[run.node_id]
            if kill.heard:
                took_s = min(RECLAIM_MAX_S, max(0.0, now_s - kill.at_s))
                self._metrics.observe(series.RECLAIM, took_s, ("kill",))

    def _job(self, former: Job | None, job: Job) -> None:
        if former is None:
            self._metrics.count(series.SUBMITTED)
        if job.phase.over:
            self._room_begun_s.pop(job.id, None)
        if job.phase.over and not (former is not None and former.phase.over):
            self._metrics.count(series.JOBS_ENDED, labels=(job.phase.value,))

    def _run(self, former: Run | None, run: Run, job: Job | None, told: RunEnded | None) -> None:
        """`told`: of an end, though it may be another run's."""
        if former is None:
            # A job that is not known yet was handed in at this moment.
            waited_s = 0.0 if job is None else run.ordered_s - job.waiting_since_s
            self._metrics.observe(series.PLACEMENT, waited_s)
        if run.started_s is not None and (former is None or former.started_s is None):
            self._metrics.count(series.RUNS_STARTED, labels=("first" if run.epoch == 1 else "again",))
            self._room_was_made(run, job)
            if run.subjob is not None:
                self._metrics.count(series.WINDOWS_STARTED, labels=(run.subjob.end.value,))
        if run.phase is RunPhase.ENDED and (former is None or former.living):
            reason = "unknown" if run.end_reason is None else run.end_reason.value
            self._metrics.count(series.RUNS_ENDED, labels=(reason,))
            if run.subjob is not None and run.started_s is not None:
                self._metrics.count(series.WINDOWS_ENDED, labels=(_outcome_of_piece(run, job, told),))
                self._piece_ended(run, run.subjob, run.started_s)

    def _piece_ended(self, run: Run, piece: Subjob, started_s: float) -> None:
        reason, ended_s = run.end_reason, run.ended_s or started_s
        self._metrics.observe(series.WINDOW_TIME, ended_s - started_s)
        if piece.ends_s is not None and reason is EndReason.WINDOW:
            self._metrics.observe(series.WINDOW_OVERRUN, ended_s - piece.ends_s)

    def _migration(self, before: CampusState, migration: Migration, runs: list[Run]) -> None:
        former = before.migrations.get(migration.id)
        if former is None:
            self._metrics.count(series.INTERRUPTIONS, labels=(migration.cause.value,))
            self._makes_room(before, migration)
        if _over(migration) and not (former is not None and _over(former)):
            tier = "none" if migration.tier is None else migration.tier.value
            self._metrics.count(series.MIGRATIONS, labels=(tier, _outcome(migration)))
            self._metrics.count(series.MIGRATION_BYTES, migration.shipped_bytes)
            if migration.downtime_s is not None:
                self._metrics.observe(series.DOWNTIME, migration.downtime_s)
                lost_s = _lost_s(before, migration, runs)
                self._metrics.count(series.LOST_WORK, lost_s, (migration.cause.value,))

    def _makes_room(self, before: CampusState, migration: Migration) -> None:
        if migration.room_for is None:
            return
        job = before.jobs.get(migration.room_for)
        # A job that is handed in at this moment takes its place at once: only class high does.
        whose = _class_of(job) if job is not None else _CLASS_AT_ONCE
        self._metrics.count(series.PREEMPTIONS, labels=(whose,))
        self._room_begun_s.setdefault(migration.room_for, migration.started_s)

    def _room_was_made(self, run: Run, job: Job | None) -> None:
        begun_s = self._room_begun_s.pop(run.job_id, None)
        if begun_s is not None and job is not None and run.started_s is not None:
            self._metrics.observe(series.PREEMPTION_WAIT, run.started_s - begun_s, (_class_of(job),))

    def _checkpoint(self, former: Checkpoint | None, checkpoint: Checkpoint) -> None:
        if former is not None and former.phase in (CheckpointPhase.DURABLE, CheckpointPhase.FAILED):
            return
        if checkpoint.phase is CheckpointPhase.FAILED:
            self._metrics.count(series.CHECKPOINTS, labels=(checkpoint.tier.value, "failed"))
        if checkpoint.phase is not CheckpointPhase.DURABLE:
            return
        self._metrics.count(series.CHECKPOINTS, labels=(checkpoint.tier.value, "durable"))
        self._metrics.count(series.CHECKPOINT_BYTES, checkpoint.size_bytes, ("state",))
        self._metrics.count(series.CHECKPOINT_BYTES, checkpoint.shipped_bytes, ("shipped",))
        self._metrics.observe(series.CHECKPOINT_TIME, checkpoint.stall_s, ("stall",))
        if checkpoint.captured_s is not None and checkpoint.durable_s is not None:
            captured_s = checkpoint.captured_s - checkpoint.requested_s
            self._metrics.observe(series.CHECKPOINT_TIME, captured_s, ("capture",))
            shipped_s = checkpoint.durable_s - checkpoint.captured_s
            self._metrics.observe(series.CHECKPOINT_TIME, shipped_s, ("ship",))


def _outcome_of_piece(run: Run, job: Job | None, told: RunEnded | None) -> str:
    if run.end_reason is EndReason.FINISHED:
        return "finished"
    if run.end_reason is EndReason.WINDOW:
        return "hard_end"
    for_its_window = told is not None and told.run_id == run.id and job is not None and is_over(job, told)
    return "in_time" if for_its_window else "interrupted"


def _reclaimed_of(node: Node | None) -> set[int | None]:
    """Which of its GPUs its owner has; None: the whole machine. A broken one nobody took back."""
    if node is None:
        return set()
    gpus: set[int | None] = {
        gpu.index
        for gpu in node.withheld
        if gpu.phase is GpuPhase.RECLAIMED and gpu.cause is not HoldCause.SICK
    }
    return gpus | ({None} if node.phase is NodePhase.RECLAIMED else set())


def _class_of(job: Job) -> str:
    return job.spec.priority.name.lower()


def _over(migration: Migration) -> bool:
    return migration.phase in (MigrationPhase.DONE, MigrationPhase.ABANDONED)


def _outcome(migration: Migration) -> str:
    if migration.phase is MigrationPhase.ABANDONED:
        return "abandoned"
    return "moved" if migration.went_elsewhere else "resumed_in_place"


def _lost_s(before: CampusState, migration: Migration, runs: list[Run]) -> float:
    """From the save it went on from, or its former run's start, to where it stood still."""
    source = before.runs.get(migration.source_run)
    if source is None or source.started_s is None or migration.stopped_s is None:
        return 0.0
    if source.last_step and not migration.steps_redone:
        return 0.0  # its program counts its steps, and made none twice
    safe_s = source.started_s
    for run in runs:
        restored = None if run.restored_from is None else before.checkpoints.get(run.restored_from)
        if run.job_id == migration.job_id and restored is not None and restored.captured_s is not None:
            safe_s = max(safe_s, restored.captured_s)
    return max(0.0, migration.stopped_s - safe_s)
