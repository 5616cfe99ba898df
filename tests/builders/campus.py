"""Both engines as stations on one manual clock, with frames carried by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.commit import AgentCommit, Commit, InboxMark, NumberedOrder, SavedAgent, SavedCampus
from gpunion.domain.effects import (
    AgentEffect,
    AskToSave,
    CancelShipping,
    KillGuest,
    LimitGuest,
    ParkGuest,
    RemoveGuest,
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
    OutputShipped,
)
from gpunion.domain.frames import AgentFrame, CoordinatorFrame, Progress
from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.job import Job, JobSpec
from gpunion.domain.node import Node, NodeFacts
from gpunion.domain.orders import StartRun
from gpunion.domain.reasons import Reason, Why
from gpunion.domain.resources import MIB
from gpunion.domain.run import EndReason
from gpunion.domain.timing import Timing
from gpunion.engine import audit
from gpunion.engine.agent_station import AgentStation
from gpunion.engine.coordinator_station import CoordinatorStation
from gpunion.policy.policies import BASELINE, Policies
from tests.builders.values import (
    TIMING,
    a_spec,
    facts,
)


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
