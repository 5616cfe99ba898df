"""What an agent remembers between two events. What it decided reaches this only after it is on disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.guest import Guest, Holding, JobEpoch, Lease
from gpunion.domain.protocol.decision import AgentRecord


@dataclass(slots=True)
class AgentState:
    """One agent's memory. The lease is not in it: after a restart the agent asks for a new one."""

    guests: dict[RunId, Guest] = field(default_factory=dict)
    epochs: dict[JobId, int] = field(default_factory=dict)
    holding: Holding = field(default_factory=Holding)
    lease_until_s: float | None = None
    cut_off: bool = False  # nobody answers when called, whatever the lease says

    @classmethod
    def from_records(cls, records: Iterable[AgentRecord]) -> AgentState:
        state = cls()
        state.apply(records)
        return state

    def apply(self, changes: Iterable[AgentRecord], forgotten: Iterable[RunId] = ()) -> None:
        for record in changes:
            match record:
                case Guest():
                    self.guests[record.run_id] = record
                case Holding():
                    self.holding = record
                case Lease():
                    self.lease_until_s = record.until_s
                case JobEpoch():
                    self.epochs[record.job_id] = record.epoch
        for run_id in forgotten:
            self.guests.pop(run_id, None)

    def records(self) -> tuple[AgentRecord, ...]:
        epochs = (JobEpoch(job_id=job, epoch=epoch) for job, epoch in sorted(self.epochs.items()))
        return (*self.guests.values(), *epochs, self.holding)
