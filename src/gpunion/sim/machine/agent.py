"""The agent's shell in the simulator: drives the station as the live agent does, with modelled I/O."""

from __future__ import annotations

import random
from collections.abc import Callable

from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.nodes.signs import Signs
from gpunion.domain.protocol.commit import AgentCommit
from gpunion.domain.protocol.events import AgentEvent, AgentStarted, GuestFound, SignsSeen
from gpunion.domain.protocol.frames import CoordinatorFrame, Finishing, Progress, Welcome
from gpunion.domain.timing import Timing
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.sim.disks import AgentDisk
from gpunion.sim.fault_points import Crashed, CrashPoint, Moment
from gpunion.sim.kernel import Alarm, Kernel
from gpunion.sim.machine.hands import Hands
from gpunion.sim.machine.place import Place
from gpunion.sim.program.clocks import Clock
from gpunion.sim.scenario.values import NodePlan
from gpunion.sim.transport import Transport

# A wait set in local time may come back a rounding early; this much later it is certainly over.
ROUNDING_S = 1e-6
RECONNECT_S = (0.3, 2.0)  # drawn in between, so that a campus does not dial all at once

MakeStation = Callable[..., PureAgent]


class AgentShell:
    """One machine's agent: lives and dies many times; its disk and its guests' keeper do not."""

    def __init__(
        self,
        kernel: Kernel,
        plan: NodePlan,
        *,
        clock: Clock,
        disk: AgentDisk,
        place: Place,
        transport: Transport,
        stream: random.Random,
        timing: Timing,
        station_type: MakeStation = PureAgent,
    ) -> None:
        self.node_id = plan.id
        self.station: PureAgent | None = None
        self.crash_point: CrashPoint | None = None
        self.on_crash: Callable[[], None] = lambda: None
        self.killed_meanwhile = False  # written by the owner's kill path, which needs no agent
        self.rebooted = False  # another boot than the one of the last commit
        self.signs: Signs | None = None  # of its owner, as they can be seen now; None: nothing is told
        self.disk = disk
        self.place = place
        self._kernel = kernel
        self._plan = plan
        self._clock = clock
        self._transport = transport
        self._stream = stream
        self._timing = timing
        self._station_type = station_type
        self._hands: Hands | None = None
        self._wake: Alarm | None = None
        self._beat: Alarm | None = None
        self._dial: Alarm | None = None
        self._heard_s = 0.0

    # --- life and death --------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        return self.station is not None

    def start(self) -> None:
        self.station = self._station_type(
            node_id=self.node_id, facts=self._plan.facts, saved=self.disk.load(), timing=self._timing
        )
        self._hands = Hands(self.place, self._heard)
        found = tuple(
            GuestFound(
                run_id=box.run_id,
                alive=box.alive,
                exit_code=box.exit_code,
                last_step=box.told_step,
                last_progress=0.0 if box.order.subjob is None else box.told_progress,
                cause=box.cause,
            )
            for box in self.place.runtime.boxes.values()
        )
        started = AgentStarted(found=found, killed_meanwhile=self.killed_meanwhile, rebooted=self.rebooted)
        if self.post(started):
            self.killed_meanwhile = self.rebooted = False
            self._dial_soon()
            self._tick()

    def crash(self) -> None:
        """The process is gone at once. Its guests live on under their keepers."""
        if self.station is not None:
            self.stop()
            self.on_crash()

    def stop(self) -> None:
        """On purpose: nobody will start it again by itself."""
        self.station, self.crash_point = None, None
        if self._hands is not None:
            self._hands.let_go()
        for alarm in (self._wake, self._beat, self._dial):
            if alarm is not None:
                alarm.cancel()
        self._wake = self._beat = self._dial = None
        self._transport.hang_up(self.node_id)

    # --- deciding --------------------------------------------------------------------------------

    def post(self, event: AgentEvent, order_seq: int | None = None) -> bool:
        """False: the agent was dead, or died over it."""
        if self.station is None:
            return False
        station = self.station
        commit = station.decide(self._now(), event, order_seq)
        try:
            self._commit(station, commit)
        except Crashed:
            self.crash()
            return False
        self._flush()
        self._arm()
        return self.station is station

    def shows(self, signs: Signs) -> None:
        self.signs = signs
        self._tell_signs()

    def _tell_signs(self) -> None:
        """Also after every greeting, which makes the coordinator forget."""
        if self.signs is not None and self.station is not None:
            self.post(SignsSeen(signs=self.signs))

    def _heard(self, outcome: AgentEvent) -> None:
        self.post(outcome)

    def _commit(self, station: PureAgent, commit: AgentCommit) -> None:
        crash = None if commit.decision.empty else self.crash_point
        if crash is not None and crash.moment is Moment.BEFORE_COMMIT:
            raise Crashed
        self.disk.acknowledged(station.reports.waiting.keys())
        self.disk.commit(commit)
        self.place.watch.agent_committed(self.node_id, commit)
        hands = self._hands
        assert hands is not None
        effects = commit.decision.effects
        if crash is not None:
            for effect in effects[: crash.effects_done]:
                hands.perform(effect)
            raise Crashed
        station.committed(commit)
        for effect in effects:
            hands.perform(effect)
        if station.engine.state.holding.owner_state is not OwnerState.SHARING:
            hands.owner_has_it()

    # --- time ------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.local(self._kernel.now_s)

    def _arm(self) -> None:
        if self.station is None:
            return
        next_s = self.station.next_due_s()
        if next_s is None:
            return
        at_s = self._clock.true(next_s) + ROUNDING_S
        if self._wake is not None and self._wake.pending:
            if self._wake.at_s <= at_s:
                return  # it wakes early, looks, and sleeps again
            self._wake.cancel()
        self._wake = self._kernel.at(at_s, self._woken)

    def _woken(self) -> None:
        while self.station is not None:
            event = self.station.due(self._now())
            if event is None or not self.post(event):
                break
        self._arm()

    # --- talking ---------------------------------------------------------------------------------

    def frame_arrived(self, frame: CoordinatorFrame) -> None:
        if self.station is None:
            return
        self._heard_s = self._kernel.now_s
        for event, order_seq in self.station.frame_arrived(self._now(), frame):
            if not self.post(event, order_seq):
                return
        if isinstance(frame, Welcome):
            self._send_heartbeat()  # the first lease, before anything else
            self._tell_signs()
        self._flush()

    def connection_lost(self) -> None:
        if self.station is not None:
            self.station.disconnected()
            self._dial_soon()

    def _dial_soon(self) -> None:
        if self._dial is None or not self._dial.pending:
            self._dial = self._kernel.after(self._stream.uniform(*RECONNECT_S), self._dial_now)

    def _dial_now(self) -> None:
        if self.station is None or self._transport.connected(self.node_id):
            return
        if self._transport.connect(self.node_id):
            self._heard_s = self._kernel.now_s
            self._transport.send_up(self.node_id, self.station.hello(self._now()))
        else:
            self._dial_soon()

    def _tick(self) -> None:
        """Every heartbeat: say that we live, greet again if nobody answered, give up a dead connection."""
        if self.station is None:
            return
        timing = self.station.timing
        if self._transport.connected(self.node_id):
            silent_s = (self._kernel.now_s - self._heard_s) * self._clock.rate
            if silent_s > max(timing.lease_s, 3 * timing.heartbeat_s):
                self._transport.hang_up(self.node_id)
                self.connection_lost()
            elif self.station.connected:
                self._send_heartbeat()
                self._flush()
            else:
                self._transport.send_up(self.node_id, self.station.hello(self._now()))
        else:
            self._dial_soon()
        self._beat = self._kernel.after(timing.heartbeat_s / self._clock.rate, self._tick)

    def _send_heartbeat(self) -> None:
        if self.station is None or not self.station.connected:
            return
        progress = [
            Progress(run_id=box.run_id, step=box.process.told[0], progress=box.process.told[1])
            for box in self.place.runtime.boxes.values()
            if box.process is not None and not box.ended
        ]
        guests = self.station.engine.state.guests.values()
        finishing = [Finishing(run_id=guest.run_id) for guest in guests if guest.sends_output]
        sessions = self.place.runtime.sessions()
        beat = self.station.heartbeat(self._now(), progress, finishing=finishing, sessions=sessions)
        self._transport.send_up(self.node_id, beat)

    def _flush(self) -> None:
        if self.station is not None and self.station.reports.waiting:
            for frame in self.station.outgoing(self._now()):
                self._transport.send_up(self.node_id, frame)
