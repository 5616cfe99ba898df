"""What an engine answers: what changes, what is to be done, and why."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.environment import CampusEnvironment
from gpunion.domain.ids import RunId
from gpunion.domain.image import CampusImage
from gpunion.domain.jobs.account import Account, Quota
from gpunion.domain.jobs.checkpoint import Checkpoint
from gpunion.domain.jobs.guest import Guest, Holding, JobEpoch, Lease
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Migration
from gpunion.domain.jobs.profile import Reliability
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.lending import CampusMemory, Lending
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.aside import SetAside
from gpunion.domain.protocol.effects import AgentEffect, CoordinatorEffect
from gpunion.domain.reasons.reason import Reason

Record = (
    Job
    | Run
    | Node
    | Checkpoint
    | Migration
    | CampusImage
    | CampusEnvironment
    | Lending
    | CampusMemory
    | Account
    | Quota
    | Reliability
    | SetAside
    | HeldJob
)
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
