"""What an engine answers: what changes, what is to be done, and why."""

from __future__ import annotations

from gpunion.domain.account import Account, Quota
from gpunion.domain.checkpoint import Checkpoint
from gpunion.domain.effects import AgentEffect, CoordinatorEffect
from gpunion.domain.guest import Guest, Holding, JobEpoch, Lease
from gpunion.domain.ids import RunId
from gpunion.domain.image import CampusImage
from gpunion.domain.job import Job
from gpunion.domain.lending import CampusMemory, Lending
from gpunion.domain.migration import Migration
from gpunion.domain.node import Node
from gpunion.domain.reasons import Reason
from gpunion.domain.records import dataclass
from gpunion.domain.run import Run

Record = Job | Run | Node | Checkpoint | Migration | CampusImage | Lending | CampusMemory | Account | Quota
AgentRecord = Guest | Holding | JobEpoch | Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A coordinator's decision. Changes are whole records: the last one of an id wins."""

    changes: tuple[Record, ...] = ()
    effects: tuple[CoordinatorEffect, ...] = ()
    reasons: tuple[Reason, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.changes or self.effects or self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDecision:
    changes: tuple[AgentRecord, ...] = ()
    forgotten: tuple[RunId, ...] = ()  # guests whose story is over on this machine
    effects: tuple[AgentEffect, ...] = ()
    reasons: tuple[Reason, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.changes or self.forgotten or self.effects or self.reasons)
