"""The stores as files on disks: a commit is there whole or not at all, and outlives the process that made it.

They rebuild from commits alone and never look into a station's memory, as a database would: a station
whose memory differs from what it committed shows after the next crash.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.guest import Guest, Holding, JobEpoch, Lease
from gpunion.domain.jobs.job import Job
from gpunion.domain.protocol.commit import (
    AgentCommit,
    Commit,
    InboxMark,
    NumberedOrder,
    NumberedReport,
    SavedAgent,
    SavedCampus,
)
from gpunion.domain.protocol.decision import AgentRecord, Record
from gpunion.domain.protocol.effects import ForgetOrders
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.timers import AgentTimer, CoordinatorTimer
from gpunion.engine.timers import Timers


class CampusDisk:
    """The coordinator's database."""

    def __init__(self) -> None:
        self.term = 0
        self.marks: dict[NodeId, InboxMark] = {}
        self._records: dict[tuple[str, str], Record] = {}
        self._timers: Timers[CoordinatorTimer] = Timers()
        self._orders: dict[NodeId, dict[int, NumberedOrder]] = {}
        self._last_seq: dict[NodeId, int] = {}

    def commit(self, commit: Commit) -> None:
        for record in commit.decision.changes:
            self._records[type(record).__name__, record.id] = record
        _keep_timers(self._timers, commit)
        for effect in commit.decision.effects:
            if isinstance(effect, ForgetOrders):
                self._orders.pop(effect.node_id, None)
        for numbered in commit.orders:
            self._orders.setdefault(numbered.node_id, {})[numbered.seq] = numbered
            self._last_seq[numbered.node_id] = numbered.seq
        if commit.mark is not None:
            self.marks[commit.mark.node_id] = commit.mark

    def acknowledged(self, node_id: NodeId, waiting: Container[int]) -> None:
        """What the station no longer waits for has arrived."""
        kept = self._orders.get(node_id, {})
        for seq in [seq for seq in kept if seq not in waiting]:
            del kept[seq]

    def has_job(self, job_id: JobId) -> bool:
        return (Job.__name__, job_id) in self._records

    def load(self) -> SavedCampus:
        return SavedCampus(
            records=tuple(self._records.values()),
            timers=self._timers.items(),
            orders=tuple(order for waiting in self._orders.values() for order in waiting.values()),
            last_order_seq=tuple(sorted(self._last_seq.items())),
            marks=tuple(self.marks.values()),
        )


class AgentDisk:
    """One agent's state directory."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.order_seq = 0
        self.last_report_seq = 0
        self._guests: dict[RunId, AgentRecord] = {}
        self._epochs: dict[JobId, AgentRecord] = {}
        self._holding: tuple[AgentRecord, ...] = ()
        self._timers: Timers[AgentTimer] = Timers()
        self._reports: dict[int, NumberedReport] = {}

    def commit(self, commit: AgentCommit) -> None:
        for record in commit.decision.changes:
            match record:
                case Guest():
                    self._guests[record.run_id] = record
                case JobEpoch():
                    self._epochs[record.job_id] = record
                case Holding():
                    self._holding = (record,)
                case Lease():
                    pass  # in memory only: a restarted agent asks anew
        for run_id in commit.decision.forgotten:
            self._guests.pop(run_id, None)
        _keep_timers(self._timers, commit)
        for numbered in commit.reports:
            self._reports[numbered.seq] = numbered
            self.last_report_seq = numbered.seq
        if commit.order_seq is not None:
            self.order_seq = commit.order_seq

    def acknowledged(self, waiting: Container[int]) -> None:
        for seq in [seq for seq in self._reports if seq not in waiting]:
            del self._reports[seq]

    def load(self) -> SavedAgent:
        return SavedAgent(
            incarnation=self.incarnation,
            records=(*self._guests.values(), *self._epochs.values(), *self._holding),
            timers=self._timers.items(),
            reports=tuple(self._reports[seq] for seq in sorted(self._reports)),
            last_report_seq=self.last_report_seq,
            order_seq=self.order_seq,
        )


def _keep_timers(timers: Timers[Any], commit: Commit | AgentCommit) -> None:
    """As a station does it: what fired is gone unless the decision set it again."""
    if isinstance(commit.event, TimerFired):
        timers.fired(commit.event.timer)
    timers.apply(commit.decision.effects)
