"""An agent's engine alone, with what the coordinator, guests and the owner say typed in."""

from __future__ import annotations

from typing import Any

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Guest, OwnerState
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.decision import AgentDecision
from gpunion.domain.protocol.events import (
    AgentEvent,
    CheckpointNotShipped,
    CheckpointShipped,
    GuestExited,
    GuestSaved,
    GuestStarted,
    LeaseRenewed,
    OrderReceived,
)
from gpunion.domain.protocol.orders import Order
from gpunion.domain.protocol.timers import AgentTimer, agent_timer
from gpunion.domain.resources import MIB
from gpunion.domain.timing import Timing
from gpunion.engine.agent.engine import AgentEngine
from gpunion.engine.agent.state import AgentState
from tests.builders.engines import EngineAlone, decided
from tests.builders.values import TIMING, a_start, facts


class LoneAgent(EngineAlone[AgentDecision]):
    """An agent's engine with a lease to begin with; orders, guests and its owner are typed in."""

    def __init__(
        self,
        *guests: Guest,
        of: NodeFacts | None = None,
        timing: Timing = TIMING,
        now_s: float = 100.0,
        lease: bool = True,
    ):
        super().__init__(now_s)
        self.engine = AgentEngine(
            state=AgentState.from_records(guests),
            facts=of or facts(gpus=2),
            timing=timing,
            timers=self.timers,
        )
        if lease:
            self.renews()

    def timer(self, text: str) -> AgentTimer:
        return agent_timer(text)

    @property
    def state(self) -> AgentState:
        return self.engine.state

    def owner_state(self) -> OwnerState:
        return self.state.holding.owner_state

    def guest(self, id: str = "job-e1") -> Guest:
        return self.state.guests[RunId(id)]

    def hears(self, event: AgentEvent) -> AgentDecision:
        return decided(self.engine, self.timers, self.now_s, event)

    def ordered(self, order: Order) -> AgentDecision:
        return self.hears(OrderReceived(order=order))

    def renews(self) -> AgentDecision:
        return self.hears(LeaseRenewed(until_s=self.now_s + self.engine.timing.lease_s))

    def exits(self, id: str = "job-e1", code: int | None = 0, *, step: int = 0, **more: Any) -> AgentDecision:
        return self.hears(GuestExited(run_id=RunId(id), exit_code=code, last_step=step, **more))

    def saves(self, checkpoint: str = "job-e1-c1", *, step: int = 10) -> AgentDecision:
        run = RunId(checkpoint.rpartition("-")[0])
        return self.hears(
            GuestSaved(
                run_id=run, checkpoint_id=CheckpointId(checkpoint), step=step, progress=0.5, stall_s=1.0
            )
        )

    def ships(self, checkpoint: str = "job-e1-c1", *, step: int = 10, elsewhere: str = "") -> AgentDecision:
        run = RunId(checkpoint.rpartition("-")[0])
        return self.hears(
            CheckpointShipped(
                run_id=run,
                checkpoint_id=CheckpointId(checkpoint),
                step=step,
                progress=0.5,
                size_bytes=2 * MIB,
                shipped_bytes=MIB,
                elsewhere=elsewhere,
            )
        )

    def cannot_ship(
        self, checkpoint: str = "job-e1-c1", trouble: CheckpointTrouble = CheckpointTrouble.VAULT_FULL
    ) -> AgentDecision:
        run = RunId(checkpoint.rpartition("-")[0])
        return self.hears(
            CheckpointNotShipped(run_id=run, checkpoint_id=CheckpointId(checkpoint), trouble=trouble)
        )


def an_agent_with_a_guest(id: str = "job-e1", **more: Any) -> LoneAgent:
    """A guest that was ordered and runs."""
    agent = LoneAgent(**more)
    agent.ordered(a_start(id))
    agent.hears(GuestStarted(run_id=RunId(id), restored=None, resumed_step=0, restore_s=0.1))
    return agent
