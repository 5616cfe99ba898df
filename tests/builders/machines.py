"""One node as an agent's station, with guests that do what they are asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.commit import AgentCommit, SavedAgent
from gpunion.domain.protocol.effects import (
    AgentEffect,
    AskToSave,
    CancelShipping,
    DumpParked,
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
from gpunion.domain.protocol.events import (
    AgentEvent,
    AgentStarted,
    CheckpointNotShipped,
    CheckpointShipped,
    GuestExited,
    GuestFound,
    GuestNotDumped,
    GuestNotParked,
    GuestParked,
    GuestSaved,
    GuestStarted,
    GuestUnparked,
    OutputShipped,
)
from gpunion.domain.resources import MIB
from gpunion.domain.system_tier import Tier
from gpunion.engine.agent.pure_agent import PureAgent
from tests.builders.processes import Process

if TYPE_CHECKING:
    from tests.builders.campus import Campus


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
        self.dumps: bool | None = True  # the same, of guests that stand parked
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

    def _boot(self) -> PureAgent:
        return PureAgent(node_id=self.node_id, facts=self.facts, saved=self.disk, timing=self.campus.timing)

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
            case DumpParked() if effect.run_id in self.processes:
                self._dump(self.processes[effect.run_id], effect)
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

    def _dump(self, process: Process, effect: DumpParked) -> None:
        assert process.frozen_s is not None or not process.alive, f"{effect.run_id} does not stand still"
        if not process.alive or self.dumps is None:
            return
        if not self.dumps:
            why = "it took too long"
            self.outcomes.append(
                GuestNotDumped(run_id=effect.run_id, checkpoint_id=effect.checkpoint_id, why=why)
            )
            return
        step = process.step(self.campus.now_s)
        self.outcomes.append(
            GuestSaved(
                run_id=effect.run_id,
                checkpoint_id=effect.checkpoint_id,
                step=step,
                progress=min(1.0, step / process.total_steps),
                stall_s=0.0,
                tier=Tier.SYSTEM,
            )
        )

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
        whole = effect.tier is Tier.SYSTEM
        if not self.campus.vault.seal(JobId(job), int(epoch), effect.step, effect.checkpoint_id, whole=whole):
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
