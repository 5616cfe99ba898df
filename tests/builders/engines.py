"""The two engines, each alone, with words typed in."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Protocol, TypeVar

from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.decision import AgentDecision, Decision
from gpunion.domain.effects import (
    SetTimer,
)
from gpunion.domain.events import (
    AgentEvent,
    CheckpointNotShipped,
    CheckpointShipped,
    CoordinatorEvent,
    GuestExited,
    GuestSaved,
    GuestStarted,
    JobStopAsked,
    JobSubmitted,
    LeaseRenewed,
    NodeFellSilent,
    NodeJoined,
    NodeReported,
    OrderReceived,
    TimerFired,
)
from gpunion.domain.guest import Guest
from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.job import Job, JobSpec
from gpunion.domain.node import Node, NodeFacts
from gpunion.domain.orders import Order
from gpunion.domain.reasons import Reason
from gpunion.domain.reports import (
    Capture,
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    Report,
    RunEnded,
    RunStarted,
)
from gpunion.domain.resources import MIB
from gpunion.domain.run import EndReason, Run
from gpunion.domain.timing import Timing
from gpunion.engine import audit
from gpunion.engine.agent import AgentEngine
from gpunion.engine.coordinator import CoordinatorEngine
from gpunion.engine.state import AgentState, CampusState
from gpunion.engine.timers import Timers
from gpunion.policy.policies import BASELINE, Policies
from tests.builders.values import (
    TIMING,
    a_spec,
    a_start,
    facts,
)

Heard = TypeVar("Heard", contravariant=True)
Made = TypeVar("Made", Decision, AgentDecision)


class Engine(Protocol[Heard, Made]):
    @property
    def state(self) -> object: ...

    def handle(self, now_s: float, event: Heard, /) -> Made: ...

    def apply(self, decision: Made, /) -> None: ...


def decided(engine: Engine[Heard, Made], timers: Timers, now_s: float, event: Heard) -> Made:
    """Its reasons can be put in words, and thinking about it has left no trace."""
    before = deepcopy(engine.state)
    decision = engine.handle(now_s, event)
    assert engine.state == before, f"thinking about {event} left a trace"
    if isinstance(event, TimerFired):
        timers.fired(event.key)
    engine.apply(decision)
    timers.apply(decision.effects)
    for reason in decision.reasons:
        assert "{" not in reason.sentence()
    return decision


def decided_anew(engine: CoordinatorEngine, now_s: float, event: CoordinatorEvent) -> Decision:
    """What a coordinator decides that knows its records and what it was taught, and remembers no more."""
    state = CampusState.from_records(engine.state.records())
    state.progress, state.preparing = engine.state.progress, engine.state.preparing
    state.memories = engine.state.memories
    other = CoordinatorEngine(
        state=state, policies=engine.policies, timing=engine.timing, timers=engine.timers
    )
    return other.handle(now_s, event)


class Headquarters:
    """Every decision is audited, its reasons are put in words, and thinking it must leave no trace."""

    def __init__(self, *, policies: Policies = BASELINE, timing: Timing = TIMING, now_s: float = 100.0):
        self.now_s = now_s
        self.timers = Timers()
        self.engine = CoordinatorEngine(
            state=CampusState(), policies=policies, timing=timing, timers=self.timers
        )
        self.told: list[tuple[float, Reason]] = []

    @property
    def state(self) -> CampusState:
        return self.engine.state

    def later(self, seconds: float) -> Headquarters:
        self.now_s += seconds
        return self

    def hears(self, event: CoordinatorEvent) -> Decision:
        anew = decided_anew(self.engine, self.now_s, event)
        decision = decided(self.engine, self.timers, self.now_s, event)
        assert decision == anew, f"what was remembered beside the records changed a decision about {event}"
        violations = audit.check(self.state, decision)
        assert violations == [], violations
        self.told += [(self.now_s, reason) for reason in decision.reasons]
        return decision

    def joins(
        self,
        node: str,
        of: NodeFacts | None = None,
        *,
        incarnation: str = "first",
        guests: Iterable[str] = (),
    ) -> Decision:
        return self.hears(
            NodeJoined(
                node_id=NodeId(node),
                incarnation=incarnation,
                facts=of or facts(),
                guests=tuple(RunId(guest) for guest in guests),
            )
        )

    def submits(self, job: str = "job", spec: JobSpec | None = None, *, gpus: int = 1) -> Decision:
        return self.hears(JobSubmitted(job_id=JobId(job), spec=spec or a_spec(gpus=gpus)))

    def stops(self, job: str = "job") -> Decision:
        return self.hears(JobStopAsked(job_id=JobId(job)))

    def reported(self, node: str, report: Report) -> Decision:
        return self.hears(NodeReported(node_id=NodeId(node), report=report))

    def silent(self, node: str, *, heard_s: float | None = None) -> Decision:
        last_heard_s = self.now_s if heard_s is None else heard_s
        return self.hears(NodeFellSilent(node_id=NodeId(node), last_heard_s=last_heard_s))

    def fires(self, key: str) -> Decision:
        """Waits until that timer is due and lets it fire."""
        at_s = self.timers.at(key)
        assert at_s is not None, f"no timer {key} is set, only {self.timers.items()}"
        self.now_s = max(self.now_s, at_s)
        return self.hears(TimerFired(key=key))

    def restarts(self) -> Headquarters:
        """Another coordinator that knows only what the store has."""
        other = Headquarters(policies=self.engine.policies, timing=self.engine.timing, now_s=self.now_s)
        other.engine.state = CampusState.from_records(self.state.records())
        other.timers.apply(SetTimer(key=key, at_s=at_s) for key, at_s in self.timers.items())
        return other

    # What agents say of runs; the node is looked up.

    def run(self, id: str = "job-e1") -> Run:
        return self.state.runs[RunId(id)]

    def job(self, id: str = "job") -> Job:
        return self.state.jobs[JobId(id)]

    def node(self, id: str = "alpha") -> Node:
        return self.state.nodes[NodeId(id)]

    def started(self, id: str = "job-e1", *, step: int = 0, restored: str | None = None) -> Decision:
        run = self.run(id)
        return self.reported(
            run.node_id,
            RunStarted(
                run_id=run.id,
                job_id=run.job_id,
                epoch=run.epoch,
                restored=None if restored is None else CheckpointId(restored),
                resumed_step=step,
                restore_s=1.0,
            ),
        )

    def ended(self, id: str, reason: EndReason, *, step: int = 0, **more: Any) -> Decision:
        run = self.run(id)
        return self.reported(
            run.node_id,
            RunEnded(
                run_id=run.id, job_id=run.job_id, epoch=run.epoch, reason=reason, last_step=step, **more
            ),
        )

    def captured(self, checkpoint: str, *, step: int, stall_s: float = 1.0) -> Decision:
        run = self.run(checkpoint.rpartition("-")[0])
        return self.reported(
            run.node_id,
            CheckpointCaptured(
                run_id=run.id,
                job_id=run.job_id,
                epoch=run.epoch,
                checkpoint_id=CheckpointId(checkpoint),
                step=step,
                progress=step / 1000,
                stall_s=stall_s,
            ),
        )

    def durable(
        self,
        checkpoint: str,
        *,
        step: int,
        final: bool = False,
        shipped_bytes: int = MIB,
        elsewhere: str = "",
        capture: Capture | None = None,
    ) -> Decision:
        run = self.run(checkpoint.rpartition("-")[0])
        return self.reported(
            run.node_id,
            CheckpointDurable(
                run_id=run.id,
                job_id=run.job_id,
                epoch=run.epoch,
                checkpoint_id=CheckpointId(checkpoint),
                step=step,
                progress=step / 1000,
                size_bytes=2 * MIB,
                shipped_bytes=shipped_bytes,
                final=final,
                elsewhere=elsewhere,
                capture=capture,
            ),
        )

    def not_saved(
        self,
        checkpoint: str,
        trouble: CheckpointTrouble = CheckpointTrouble.NOT_ANSWERED,
        places: str = "",
    ) -> Decision:
        run = self.run(checkpoint.rpartition("-")[0])
        return self.reported(
            run.node_id,
            CheckpointFailed(
                run_id=run.id,
                job_id=run.job_id,
                epoch=run.epoch,
                checkpoint_id=CheckpointId(checkpoint),
                trouble=trouble,
                places=places,
            ),
        )


def a_running_job(job: str = "job", *, nodes: Iterable[str] = ("alpha",), **spec: Any) -> Headquarters:
    """Headquarters with one job running as epoch 1 on the first node it was placed on."""
    headquarters = Headquarters()
    for node in nodes:
        headquarters.joins(node)
    headquarters.submits(job, a_spec(**spec))
    headquarters.later(1.0).started(f"{job}-e1")
    return headquarters


class LoneAgent:
    """An agent's engine with a lease to begin with; orders, guests and its owner are typed in."""

    def __init__(
        self,
        *guests: Guest,
        of: NodeFacts | None = None,
        timing: Timing = TIMING,
        now_s: float = 100.0,
        lease: bool = True,
    ):
        self.now_s = now_s
        self.timers = Timers()
        self.engine = AgentEngine(
            state=AgentState.from_records(guests),
            facts=of or facts(gpus=2),
            timing=timing,
            timers=self.timers,
        )
        if lease:
            self.renews()

    @property
    def state(self) -> AgentState:
        return self.engine.state

    def guest(self, id: str = "job-e1") -> Guest:
        return self.state.guests[RunId(id)]

    def later(self, seconds: float) -> LoneAgent:
        self.now_s += seconds
        return self

    def hears(self, event: AgentEvent) -> AgentDecision:
        return decided(self.engine, self.timers, self.now_s, event)

    def ordered(self, order: Order) -> AgentDecision:
        return self.hears(OrderReceived(order=order))

    def renews(self) -> AgentDecision:
        return self.hears(LeaseRenewed(until_s=self.now_s + self.engine.timing.lease_s))

    def fires(self, key: str) -> AgentDecision:
        at_s = self.timers.at(key)
        assert at_s is not None, f"no timer {key} is set, only {self.timers.items()}"
        self.now_s = max(self.now_s, at_s)
        return self.hears(TimerFired(key=key))

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
