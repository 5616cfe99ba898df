"""Invariant 13: a job makes room for a higher class alone, and keeps its next place for ten minutes."""

from __future__ import annotations

from gpunion.domain.ids import JobId, MigrationId
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Cause, Migration
from gpunion.domain.protocol.commit import Commit
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.coordinator.state import CampusState
from gpunion.policy.preemption import SETTLED_LEAST_S
from gpunion.sim.checkers.court import Checker, Court

INSTANT_S = 0.01


class RoomIsMadeByTheRule(Checker):
    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._resumed_s: dict[JobId, float] = {}
        self._judged: set[MigrationId] = set()

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        for record in commit.decision.changes:
            if not isinstance(record, Migration):
                continue
            if record.resumed_s is not None:
                self._resumed_s[record.job_id] = record.resumed_s
            elif record.cause is Cause.PREEMPTED and record.id not in self._judged:
                self._judged.add(record.id)
                self._judge(record, station.engine.state)

    def _judge(self, migration: Migration, state: CampusState) -> None:
        job, other = state.jobs[migration.job_id], migration.room_for and state.jobs.get(migration.room_for)
        if other and self._has_its_turn(other, migration, state):
            pass
        elif not other or job.spec.priority >= other.spec.priority:
            self.court.find(
                13, job.id, f"it makes room for {migration.room_for}, which is of no higher class"
            )
        resumed_s = self._resumed_s.get(job.id)
        if resumed_s is not None and migration.started_s - resumed_s < SETTLED_LEAST_S:
            kept_s = migration.started_s - resumed_s
            self.court.find(
                13, job.id, f"it makes room {kept_s:.0f} s after it came to {migration.source_node}"
            )

    def _has_its_turn(self, other: Job, migration: Migration, state: CampusState) -> bool:
        """It has stood in memory there for as long as it may."""
        theirs = None if other.migration is None else state.migrations.get(other.migration)
        if theirs is None or theirs.left_s is None or theirs.source_node != migration.source_node:
            return False
        most_s = self.world.scenario.timing.parked_at_most_s
        return migration.started_s - theirs.left_s >= most_s - INSTANT_S
