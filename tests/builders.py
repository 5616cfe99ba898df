"""Builders with defaults, so that a test says only what it is about.

Values (`a_job(gpus=2)`, `a_node()`, `facts()`), the two engines alone with words typed in (`Headquarters`,
`LoneAgent`), and both as stations on one manual clock with frames carried by hand (`a_campus()`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.commit import AgentCommit, Commit, InboxMark, NumberedOrder, SavedAgent, SavedCampus
from gpunion.domain.decision import AgentDecision, Decision
from gpunion.domain.effects import (
    AgentEffect,
    AskToSave,
    CancelShipping,
    CancelTimer,
    KillGuest,
    LimitGuest,
    ParkGuest,
    RemoveGuest,
    SendOrder,
    SendReport,
    SetTimer,
    ShipCheckpoint,
    ShipOutput,
    StartGuest,
    TerminateGuest,
    UnparkGuest,
)
from gpunion.domain.events import (
    AgentEvent,
    AgentStarted,
    CheckpointNotShipped,
    CheckpointShipped,
    CoordinatorEvent,
    CoordinatorStarted,
    GuestExited,
    GuestFound,
    GuestNotParked,
    GuestParked,
    GuestSaved,
    GuestStarted,
    GuestUnparked,
    JobStopAsked,
    JobSubmitted,
    LeaseRenewed,
    NodeFellSilent,
    NodeJoined,
    NodeReported,
    OrderReceived,
    OutputShipped,
    TimerFired,
)
from gpunion.domain.frames import AgentFrame, CoordinatorFrame, Progress
from gpunion.domain.guest import Guest, GuestPhase
from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId, checkpoint_id
from gpunion.domain.job import CheckpointWish, Job, JobPhase, JobSpec, Priority
from gpunion.domain.node import Node, NodeFacts, NodePhase
from gpunion.domain.orders import Order, StartRun, StopRun, TakeCheckpoint
from gpunion.domain.reasons import Reason, Why
from gpunion.domain.reports import (
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    Report,
    RunEnded,
    RunStarted,
)
from gpunion.domain.resources import GIB, MIB, Capacity, Gpu, Grant, Request
from gpunion.domain.run import EndReason, Run, RunPhase
from gpunion.domain.snapshot import NodeView
from gpunion.domain.terms import Terms
from gpunion.domain.timing import Timing
from gpunion.engine import audit
from gpunion.engine.agent import AgentEngine
from gpunion.engine.agent_station import AgentStation
from gpunion.engine.coordinator import CoordinatorEngine
from gpunion.engine.coordinator_station import CoordinatorStation
from gpunion.engine.state import AgentState, CampusState
from gpunion.engine.timers import Timers
from gpunion.policy.policies import BASELINE, Policies

TIMING = Timing()
GIGABIT_BPS = 1e9


# --- values -----------------------------------------------------------------------------------------


def some_gpus(
    count: int = 1, *, model: str = "card", memory_gib: float = 24, speed: float = 1.0, first: int = 0
) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(index=index, model=model, memory_bytes=int(memory_gib * GIB), speed=speed)
        for index in range(first, first + count)
    )


def facts(
    *,
    gpus: int | tuple[Gpu, ...] = 1,
    speed: float = 1.0,
    cpus: float = 16.0,
    memory_gib: float = 64,
    uplink_bps: float = GIGABIT_BPS,
    lab: str = "alpha",
    terms: Terms | None = None,
    sandboxed: bool = True,
) -> NodeFacts:
    cards = some_gpus(gpus, speed=speed) if isinstance(gpus, int) else gpus
    capacity = Capacity(gpus=cards, cpus=cpus, memory_bytes=int(memory_gib * GIB), uplink_bps=uplink_bps)
    return NodeFacts(lab=lab, capacity=capacity, terms=terms or Terms(), sandboxed=sandboxed)


def a_spec(
    *,
    gpus: int = 1,
    lab: str = "students",
    priority: Priority = Priority.NORMAL,
    expected_s: float | None = None,
    checkpoint: CheckpointWish | None = None,
    request: Request | None = None,
) -> JobSpec:
    return JobSpec(
        name="train",
        command=("python", "train.py"),
        owner="sam",
        lab=lab,
        request=request or Request(gpus=gpus),
        priority=priority,
        checkpoint=checkpoint or CheckpointWish(),
        expected_s=expected_s,
    )


def a_job(id: str = "job", *, gpus: int = 1, spec: JobSpec | None = None, **changes: Any) -> Job:
    job = Job(
        id=JobId(id),
        spec=spec or a_spec(gpus=gpus),
        phase=JobPhase.PENDING,
        submitted_s=0.0,
        waiting_since_s=0.0,
    )
    return replace(job, **changes)


def a_node(id: str = "alpha", *, of: NodeFacts | None = None, **changes: Any) -> Node:
    node = Node(
        id=NodeId(id),
        facts=of or facts(),
        phase=NodePhase.SHARING,
        incarnation="first",
        joined_s=0.0,
        phase_since_s=0.0,
    )
    return replace(node, **changes)


def a_view(node: Node | None = None, **changes: Any) -> NodeView:
    """A node with nobody on it."""
    node = node or a_node()
    capacity = node.facts.capacity
    view = NodeView(
        node=node,
        free_gpus=capacity.gpus,
        free_cpus=capacity.cpus,
        free_memory_bytes=capacity.memory_bytes,
        guests=0,
    )
    return replace(view, **changes)


def a_grant(*indices: int) -> Grant:
    return Grant(gpu_indices=indices or (0,), cpus=1.0, memory_bytes=GIB)


def a_run(id: str = "job-e1", **changes: Any) -> Run:
    job, _, epoch = id.rpartition("-e")
    run = Run(
        id=RunId(id),
        job_id=JobId(job),
        node_id=NodeId("alpha"),
        epoch=int(epoch),
        phase=RunPhase.RUNNING,
        grant=a_grant(),
        ordered_s=0.0,
    )
    return replace(run, **changes)


def a_guest(id: str = "job-e1", **changes: Any) -> Guest:
    job, _, epoch = id.rpartition("-e")
    guest = Guest(
        run_id=RunId(id), job_id=JobId(job), epoch=int(epoch), grant=a_grant(), phase=GuestPhase.RUNNING
    )
    return replace(guest, **changes)


def a_start(id: str = "job-e1", *, gpu: int = 0, **changes: Any) -> StartRun:
    job, _, epoch = id.rpartition("-e")
    order = StartRun(
        run_id=RunId(id),
        job_id=JobId(job),
        epoch=int(epoch),
        command=("python", "train.py"),
        environment=(),
        bundle=None,
        grant=a_grant(gpu),
        name="train",
        user="sam",
        lab="students",
    )
    return replace(order, **changes)


def a_stop(id: str = "job-e1") -> StopRun:
    job, _, epoch = id.rpartition("-e")
    return StopRun(run_id=RunId(id), job_id=JobId(job), epoch=int(epoch))


def a_save_order(id: str = "job-e1", number: int = 1, **changes: Any) -> TakeCheckpoint:
    job, _, epoch = id.rpartition("-e")
    order = TakeCheckpoint(
        run_id=RunId(id),
        job_id=JobId(job),
        epoch=int(epoch),
        checkpoint_id=checkpoint_id(RunId(id), number),
        final=False,
        by_s=None,
        rate_bps=1e6,
    )
    return replace(order, **changes)


# --- what a decision says ---------------------------------------------------------------------------


def whys(decision: Decision | AgentDecision, subject: str | None = None) -> list[Why]:
    return [reason.why for reason in decision.reasons if subject in (None, reason.subject)]


def orders(decision: Decision) -> list[tuple[NodeId, Order]]:
    return [(e.node_id, e.order) for e in decision.effects if isinstance(e, SendOrder)]


def timers_of(decision: Decision | AgentDecision) -> dict[str, float | None]:
    """Set timers by name; None where one was cancelled. The last word of a name counts."""
    said: dict[str, float | None] = {}
    for effect in decision.effects:
        if isinstance(effect, SetTimer):
            said[effect.key] = effect.at_s
        elif isinstance(effect, CancelTimer):
            said[effect.key] = None
    return said


def reports(decision: AgentDecision) -> list[Report]:
    return [effect.report for effect in decision.effects if isinstance(effect, SendReport)]


def deeds(decision: AgentDecision) -> list[AgentEffect]:
    """What an agent's hands have to do: neither timers nor reports."""
    return [e for e in decision.effects if not isinstance(e, SetTimer | CancelTimer | SendReport)]


# --- the coordinator's engine, alone ----------------------------------------------------------------


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
        before = deepcopy(self.state)
        decision = self.engine.handle(self.now_s, event)
        assert self.state == before, f"thinking about {event} left a trace"
        if isinstance(event, TimerFired):
            self.timers.fired(event.key)
        self.engine.apply(decision)
        self.timers.apply(decision.effects)
        violations = audit.check(self.state, decision)
        assert violations == [], violations
        for reason in decision.reasons:
            assert "{" not in reason.sentence()
            self.told.append((self.now_s, reason))
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
        self, checkpoint: str, *, step: int, final: bool = False, shipped_bytes: int = MIB
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
            ),
        )

    def not_saved(
        self, checkpoint: str, trouble: CheckpointTrouble = CheckpointTrouble.NOT_ANSWERED
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


# --- an agent's engine, alone -----------------------------------------------------------------------


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
        before = deepcopy(self.state)
        decision = self.engine.handle(self.now_s, event)
        assert self.state == before, f"thinking about {event} left a trace"
        if isinstance(event, TimerFired):
            self.timers.fired(event.key)
        self.engine.apply(decision)
        self.timers.apply(decision.effects)
        for reason in decision.reasons:
            assert "{" not in reason.sentence()
        return decision

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

    def ships(self, checkpoint: str = "job-e1-c1", *, step: int = 10) -> AgentDecision:
        run = RunId(checkpoint.rpartition("-")[0])
        return self.hears(
            CheckpointShipped(
                run_id=run,
                checkpoint_id=CheckpointId(checkpoint),
                step=step,
                progress=0.5,
                size_bytes=2 * MIB,
                shipped_bytes=MIB,
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


# --- both as stations, on one clock -----------------------------------------------------------------


@dataclass
class Process:
    """The truth of one guest: it makes a step a second until it is done, asked for its last save, or dead."""

    order: StartRun
    resumed_step: int
    started_s: float
    lease_until_s: float | None
    kill_at_s: float | None = None
    total_steps: float = float("inf")
    stopped_at_step: int | None = None
    alive: bool = True
    stale: bool = False  # was already replaced when its order arrived
    asked: AskToSave | None = None
    frozen_s: float | None = None  # parked since then
    stood_s: float = 0.0  # for how long it was parked before

    def step(self, now_s: float) -> int:
        if self.stopped_at_step is not None:
            return self.stopped_at_step
        until_s = now_s if self.frozen_s is None else self.frozen_s
        return int(min(self.resumed_step + until_s - self.stood_s - self.started_s, self.total_steps))

    def thaw(self, now_s: float) -> None:
        if self.frozen_s is not None:
            self.stood_s += now_s - self.frozen_s
            self.frozen_s = None

    def moments(self) -> Iterator[float]:
        """When something of it happens by itself: done, or ended by its keeper."""
        yield from (at_s for at_s in (self.lease_until_s, self.kill_at_s) if at_s is not None)
        if self.stopped_at_step is None and self.frozen_s is None and self.total_steps != float("inf"):
            yield self.started_s + self.stood_s + self.total_steps - self.resumed_step


@dataclass
class Vault:
    """Seals are refused for an epoch older than the newest that was started."""

    fence: dict[JobId, int] = field(default_factory=dict)
    sealed: dict[JobId, list[tuple[int, CheckpointId]]] = field(default_factory=dict)

    def start(self, order: StartRun) -> tuple[int, CheckpointId | None]:
        self.fence[order.job_id] = max(order.epoch, self.fence.get(order.job_id, 0))
        return max(self.sealed.get(order.job_id, []), default=(0, None))

    def seal(self, job: JobId, epoch: int, step: int, checkpoint: CheckpointId) -> bool:
        if epoch < self.fence.get(job, 0):
            return False
        self.sealed.setdefault(job, []).append((step, checkpoint))
        return True


class Machine:
    """One node: an agent's station, its disk and its guests. Guests do what they are asked at once, unless
    a test says otherwise (`starts`, `answers`, `ships`, `polite`)."""

    def __init__(self, campus: Campus, node_id: str, of: NodeFacts, incarnation: str = "first") -> None:
        self.campus = campus
        self.node_id = NodeId(node_id)
        self.facts = of
        self.disk = SavedAgent(incarnation=incarnation)
        self.station = self._boot()
        self.running = True
        self.linked = True
        self.starts = self.answers = self.ships = True
        self.parks: bool | None = True  # False: it cannot; None: no word comes of it
        self.polite = False
        self.processes: dict[RunId, Process] = {}
        self.unheard: list[GuestExited] = []  # ends nobody was there to hear
        self.shipping: dict[RunId, ShipCheckpoint] = {}
        self.outcomes: list[AgentEvent] = []
        self.commits: list[AgentCommit] = []

    def living(self) -> list[Process]:
        return [process for process in self.processes.values() if process.alive]

    # What its owner, its guests and fate do.

    def owner(self, event: AgentEvent) -> AgentCommit:
        commit = self.decide(event)
        self.campus.settle()
        return commit

    def exits(self, run: str, code: int | None = 0, cause: EndReason | None = None) -> None:
        self._die(self.processes[RunId(run)], code, cause)
        self.campus.settle()

    def crashes(self) -> None:
        self.running = False
        self.outcomes.clear()
        self.shipping.clear()

    def restarts(self, *, killed_meanwhile: bool = False, forgetful: str | None = None) -> None:
        """`forgetful`: with its disk lost and a new incarnation of that name."""
        if forgetful is not None:
            self.disk = SavedAgent(incarnation=forgetful)
        self.running = True
        self.station = self._boot()
        found = [
            GuestFound(run_id=run, alive=True, last_step=process.step(self.campus.now_s))
            for run, process in self.processes.items()
            if process.alive
        ]
        found += [
            GuestFound(
                run_id=e.run_id, alive=False, exit_code=e.exit_code, last_step=e.last_step, cause=e.cause
            )
            for e in self.unheard
        ]
        self.unheard.clear()
        self.decide(AgentStarted(found=tuple(found), killed_meanwhile=killed_meanwhile))
        self.campus.settle()

    def finishes_shipping(self) -> None:
        self.ships = True
        for effect in list(self.shipping.values()):
            self._ship(effect)
        self.campus.settle()

    # How it is driven.

    def decide(self, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        commit = self.station.decide(self.campus.now_s, event, order_seq)
        self.station.committed(commit)
        if not commit.volatile:
            self.disk = self.station.saved()
        self.commits.append(commit)
        for reason in commit.decision.reasons:
            assert "{" not in reason.sentence()
        for effect in commit.decision.effects:
            self._perform(effect)
        return commit

    def works_off(self) -> bool:
        """One round of what is due; whether there was anything."""
        busy = False
        for process in self.living():
            busy |= self._let_live(process)
        while self.running and self.outcomes:
            self.decide(self.outcomes.pop(0))
            busy = True
        while self.running and (event := self.station.due(self.campus.now_s)) is not None:
            self.decide(event)
            busy = True
        return busy

    def moments(self) -> Iterator[float]:
        for process in self.living():
            yield from process.moments()
        due_s = self.station.next_due_s() if self.running else None
        if due_s is not None:
            yield due_s

    def _boot(self) -> AgentStation:
        return AgentStation(
            node_id=self.node_id, facts=self.facts, saved=self.disk, timing=self.campus.timing
        )

    def _let_live(self, process: Process) -> bool:
        now_s = self.campus.now_s
        if process.kill_at_s is not None and now_s >= process.kill_at_s:
            self._die(process, None, EndReason.DEADLINE)
        elif process.lease_until_s is not None and now_s >= process.lease_until_s:
            self._die(process, None, EndReason.LEASE_ENDED)
        elif process.stopped_at_step is None and process.step(now_s) >= process.total_steps:
            self._die(process, 0, None)
        else:
            return False
        return True

    def _die(self, process: Process, code: int | None, cause: EndReason | None) -> None:
        if not process.alive:
            return
        process.stopped_at_step = process.step(self.campus.now_s)
        process.alive = False
        event = GuestExited(
            run_id=process.order.run_id, exit_code=code, last_step=process.stopped_at_step, cause=cause
        )
        (self.outcomes if self.running else self.unheard).append(event)

    def _perform(self, effect: AgentEffect) -> None:
        match effect:
            case StartGuest():
                self._start(effect)
            case AskToSave() if effect.run_id in self.processes:
                self._ask(self.processes[effect.run_id], effect)
            case ShipCheckpoint():
                self.shipping[effect.run_id] = effect
                if self.ships:
                    self._ship(effect)
            case CancelShipping():
                self.shipping.pop(effect.run_id, None)
            case ShipOutput():
                self.outcomes.append(OutputShipped(run_id=effect.run_id, output=None))
            case LimitGuest() if effect.run_id in self.processes:
                process = self.processes[effect.run_id]
                process.lease_until_s, process.kill_at_s = effect.lease_until_s, effect.kill_at_s
            case ParkGuest() | UnparkGuest() if effect.run_id in self.processes:
                self._move(self.processes[effect.run_id], effect)
            case TerminateGuest() if self.polite and effect.run_id in self.processes:
                self._die(self.processes[effect.run_id], 143, None)
            case KillGuest() if effect.run_id in self.processes:
                self._die(self.processes[effect.run_id], None, effect.cause)
            case RemoveGuest():
                self.processes.pop(effect.run_id, None)
            case _:
                pass

    def _start(self, effect: StartGuest) -> None:
        if not self.starts:
            return
        order = effect.order
        self.campus.about_to_start(self, order)
        step, restored = self.campus.vault.start(order)
        job = self.campus.station.engine.state.jobs[order.job_id]
        self.processes[order.run_id] = Process(
            order=order,
            resumed_step=step,
            started_s=self.campus.now_s,
            lease_until_s=effect.lease_until_s,
            total_steps=job.spec.expected_s or float("inf"),
            stale=order.epoch < job.epoch,
        )
        self.outcomes.append(
            GuestStarted(run_id=order.run_id, restored=restored, resumed_step=step, restore_s=0.0)
        )

    def _move(self, process: Process, effect: ParkGuest | UnparkGuest) -> None:
        """Off its GPUs into memory, and back. Doing it again changes nothing."""
        run_id, now_s = process.order.run_id, self.campus.now_s
        if not process.alive:
            return
        if isinstance(effect, UnparkGuest):
            process.thaw(now_s)
            self.outcomes.append(GuestUnparked(run_id=run_id, took_s=0.5))
        elif self.parks is None:
            return
        elif self.parks:
            process.frozen_s = now_s if process.frozen_s is None else process.frozen_s
            self.outcomes.append(GuestParked(run_id=run_id, moved_bytes=MIB, took_s=0.5))
        else:
            self.outcomes.append(GuestNotParked(run_id=run_id, detail="too little memory"))

    def _ask(self, process: Process, effect: AskToSave) -> None:
        process.asked = effect
        if not self.answers or not process.alive or process.frozen_s is not None:
            return
        step = process.step(self.campus.now_s)
        if effect.final:
            process.stopped_at_step = step
        self.outcomes.append(
            GuestSaved(
                run_id=effect.run_id,
                checkpoint_id=effect.checkpoint_id,
                step=step,
                progress=min(1.0, step / process.total_steps),
                stall_s=0.5,
            )
        )

    def _ship(self, effect: ShipCheckpoint) -> None:
        self.shipping.pop(effect.run_id, None)
        job, _, epoch = effect.run_id.rpartition("-e")
        if not self.campus.vault.seal(JobId(job), int(epoch), effect.step, effect.checkpoint_id):
            trouble = CheckpointTrouble.OLD_EPOCH
            self.outcomes.append(
                CheckpointNotShipped(
                    run_id=effect.run_id, checkpoint_id=effect.checkpoint_id, trouble=trouble
                )
            )
            return
        self.outcomes.append(
            CheckpointShipped(
                run_id=effect.run_id,
                checkpoint_id=effect.checkpoint_id,
                step=effect.step,
                progress=effect.progress,
                size_bytes=2 * MIB,
                shipped_bytes=MIB,
            )
        )


# What becomes of one frame: the moments it arrives at. Empty: lost; two: doubled; later ones overtake.
Fate = Callable[[float], list[float]]


def at_once(now_s: float) -> list[float]:
    return [now_s]


class Campus:
    """A coordinator's station and agents' stations, joined by hand. Time only passes in `advance`."""

    def __init__(self, *, policies: Policies = BASELINE, timing: Timing = TIMING) -> None:
        self.now_s = 1000.0
        self.timing = timing
        self.policies = policies
        self.vault = Vault()
        self.machines: dict[NodeId, Machine] = {}
        self.commits: list[Commit] = []
        self.told: list[tuple[float, Reason]] = []
        self.fate: Fate = at_once
        self.up = True
        self.station = self._boot(SavedCampus(), term=1)
        self._wire: list[tuple[float, int, Callable[[], None]]] = []
        self._sent = 0
        self._next_beat_s = self.now_s

    # What people and fate do.

    def adds(self, node: str, of: NodeFacts | None = None) -> Machine:
        machine = self.machines[NodeId(node)] = Machine(self, node, of or facts())
        self._greet(machine)
        self.settle()
        return machine

    def submits(self, job: str = "job", spec: JobSpec | None = None) -> Job:
        self.decide(JobSubmitted(job_id=JobId(job), spec=spec or a_spec()))
        self.settle()
        return self.job(job)

    def stops(self, job: str = "job") -> None:
        self.decide(JobStopAsked(job_id=JobId(job)))
        self.settle()

    def job(self, id: str = "job") -> Job:
        return self.station.engine.state.jobs[JobId(id)]

    def node(self, id: str) -> Node:
        return self.station.engine.state.nodes[NodeId(id)]

    def machine_of(self, job: str = "job") -> Machine:
        """Where the newest run of a job is."""
        run = self.station.engine.state.runs[RunId(f"{job}-e{self.job(job).epoch}")]
        return self.machines[run.node_id]

    def whys(self, subject: str) -> list[Why]:
        return [reason.why for _, reason in self.told if reason.subject == subject]

    def falls(self) -> None:
        """The coordinator dies: its connections break."""
        self.up = False
        self._wire.clear()
        for machine in self.machines.values():
            machine.station.disconnected()

    def rises(self) -> None:
        """Another coordinator takes over from the store alone."""
        self.station = self._boot(self.saved(), term=self.station.term + 1)
        self.up = True
        self.decide(CoordinatorStarted())
        self.settle()

    def hangs_up(self, node: str) -> None:
        machine = self.machines[NodeId(node)]
        machine.station.disconnected()
        self.station.disconnected(machine.node_id)

    def about_to_start(self, machine: Machine, order: StartRun) -> None:
        """No living guest of an older epoch may be left when a newer one starts."""
        for other in self.machines.values():
            for process in other.living():
                if process.order.job_id == order.job_id and not process.stale:
                    assert process.order.epoch > order.epoch, (
                        f"{order.run_id} starts on {machine.node_id} while {process.order.run_id} lives"
                    )

    # How it is driven.

    def decide(self, event: CoordinatorEvent, mark: InboxMark | None = None) -> Commit:
        before = dict(self.station.engine.state.jobs)
        commit = self.station.decide(self.now_s, event, mark)
        self.station.committed(commit)
        self.commits.append(commit)
        violations = audit.check(self.station.engine.state, commit.decision)
        assert violations == [], violations
        for record in commit.decision.changes:
            if isinstance(record, Job) and (former := before.get(record.id)) is not None:
                _only_forward(former, record)
        for reason in commit.decision.reasons:
            assert "{" not in reason.sentence()
            self.told.append((self.now_s, reason))
        return commit

    def settle(self) -> None:
        """Everything that can happen at this moment happens."""
        busy = True
        while busy:
            busy = False
            for machine in self.machines.values():
                busy |= machine.works_off()
            while self.up and (event := self.station.due(self.now_s)) is not None:
                self.decide(event)
                busy = True
            self._send()
            busy |= self._deliver()

    def advance(self, seconds: float) -> Campus:
        end_s = self.now_s + seconds
        rounds_at: Counter[float] = Counter()
        while self.now_s < end_s:
            rounds_at[self.now_s] += 1
            assert rounds_at[self.now_s] < 1000, f"time stands still at {self.now_s}"
            self.now_s = min(end_s, *(max(self.now_s, at_s) for at_s in self._moments()))
            if self.now_s >= self._next_beat_s:
                self._next_beat_s = self.now_s + self.timing.heartbeat_s
                self._beat()
            self.settle()
        return self

    def saved(self) -> SavedCampus:
        """What a store that kept every commit would give back."""
        links = self.station.links
        return SavedCampus(
            records=self.station.engine.state.records(),
            timers=self.station.timers.items(),
            orders=tuple(
                NumberedOrder(node_id=node, seq=seq, order=order)
                for node, link in links.items()
                for seq, order in link.orders.waiting.items()
            ),
            last_order_seq=tuple((node, link.orders.last_seq) for node, link in links.items()),
            marks=tuple(
                InboxMark(node_id=node, incarnation=link.incarnation, seq=link.reports.last_seq)
                for node, link in links.items()
            ),
        )

    def _boot(self, saved: SavedCampus, term: int) -> CoordinatorStation:
        return CoordinatorStation(
            saved=saved, policies=self.policies, timing=self.timing, term=term, now_s=self.now_s
        )

    def _moments(self) -> Iterator[float]:
        yield self._next_beat_s
        for machine in self.machines.values():
            yield from machine.moments()
        due_s = self.station.next_due_s() if self.up else None
        if due_s is not None:
            yield due_s
        yield from (at_s for at_s, _, _ in self._wire)

    def _beat(self) -> None:
        for machine in self.machines.values():
            if not machine.running:
                continue
            if not machine.station.connected:
                self._greet(machine)
                continue
            progress = [
                Progress(run_id=p.order.run_id, step=p.step(self.now_s), progress=0.0)
                for p in machine.living()
            ]
            self._to_coordinator(machine, machine.station.heartbeat(self.now_s, progress))

    def _greet(self, machine: Machine) -> None:
        self._to_coordinator(machine, machine.station.hello(self.now_s))

    def _send(self) -> None:
        for machine in self.machines.values():
            if machine.running:
                for frame in list(machine.station.outgoing(self.now_s)):
                    self._to_coordinator(machine, frame)
            if self.up:
                for answer in list(self.station.outgoing(self.now_s, machine.node_id)):
                    self._to_agent(machine, answer)

    def _to_coordinator(self, machine: Machine, frame: AgentFrame) -> None:
        def arrive() -> None:
            if self.up:
                for event, mark in self.station.frame_arrived(self.now_s, machine.node_id, frame):
                    self.decide(event, mark)

        self._post(machine, arrive)

    def _to_agent(self, machine: Machine, frame: CoordinatorFrame) -> None:
        station = machine.station

        def arrive() -> None:
            if machine.running and machine.station is station:
                for event, seq in station.frame_arrived(self.now_s, frame):
                    machine.decide(event, seq)

        self._post(machine, arrive)

    def _post(self, machine: Machine, arrive: Callable[[], None]) -> None:
        for at_s in self.fate(self.now_s) if machine.linked else []:
            self._sent += 1
            self._wire.append((at_s, self._sent, arrive))

    def _deliver(self) -> bool:
        due = sorted((w for w in self._wire if w[0] <= self.now_s), key=lambda w: w[:2])
        self._wire = [w for w in self._wire if w[0] > self.now_s]
        for _, _, arrive in due:
            arrive()
        return bool(due)


def a_campus(nodes: Iterable[str] = ("alpha", "beta"), *, policies: Policies = BASELINE, **of: Any) -> Campus:
    """Nodes that have joined; `of` describes them all."""
    campus = Campus(policies=policies)
    for node in nodes:
        campus.adds(node, facts(lab=node, **of))
    return campus


def _only_forward(former: Job, job: Job) -> None:
    assert job.epoch >= former.epoch, f"{job.id} went back from epoch {former.epoch} to {job.epoch}"
    was = -1 if former.durable is None else former.durable.step
    now = -1 if job.durable is None else job.durable.step
    assert now >= was, f"{job.id} had step {was} durable and now only {now}"
    assert not former.phase.over or job.phase is former.phase, f"{job.id} came back from {former.phase}"
