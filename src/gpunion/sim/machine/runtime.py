"""One machine's guests and their keeper: what lives on whether or not the agent does.

The keeper ends a guest at the earlier of its limits, in the machine's own time, with nobody watching.
Boxes are the guests' directories: they survive everything but `remove`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

from gpunion.domain.ids import CheckpointId, NodeId, RunId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.frames import SessionNote
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.resources import Capacity
from gpunion.sim.kernel import Alarm, Kernel
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.program.clocks import Clock
from gpunion.sim.program.process import Process
from gpunion.sim.scenario.values import Program
from gpunion.sim.streams import keyed_seed

# A guest nobody set a limit for lives this long: an agent that dies between start and limit leaves no orphan.
FIRST_LEASE_S = 15.0


@dataclass(slots=True)
class Limits:
    lease_until_s: float | None = None
    kill_at_s: float | None = None

    def earlier(self) -> tuple[float, EndReason] | None:
        both = [
            (at_s, reason)
            for at_s, reason in (
                (self.kill_at_s, EndReason.DEADLINE),
                (self.lease_until_s, EndReason.LEASE_ENDED),
            )
            if at_s is not None
        ]
        return min(both, key=lambda pair: pair[0], default=None)


def pace_of(run_id: RunId, program: Program) -> float:
    """Derived from the run, so that nothing else in the world is drawn differently for it."""
    if not program.noise:
        return 1.0
    draw = Random(keyed_seed(0, f"pace/{run_id}"))
    return draw.lognormvariate(-(program.noise**2) / 2, program.noise)


class GuestRuntime:
    def __init__(
        self, kernel: Kernel, clock: Clock, node_id: NodeId, capacity: Capacity, watch: Watch
    ) -> None:
        self.node_id = node_id
        self.boxes: dict[RunId, Box] = {}
        self.slowness = 1.0  # of the disk: multiplies the time of every save
        self.on_exit: Callable[[Box], None]
        self.on_saved: Callable[[Box, CheckpointId, int, float], None]
        self.nobody_listens()
        self._kernel = kernel
        self._clock = clock
        self._gpus = {gpu.index: gpu for gpu in capacity.gpus}
        self._watch = watch
        self._limits: dict[RunId, Limits] = {}
        self._alarms: dict[RunId, Alarm] = {}

    def nobody_listens(self) -> None:
        """The agent is gone: ends and saves happen unheard."""
        self.on_exit = lambda box: None
        self.on_saved = lambda box, checkpoint_id, step, stall_s: None

    def time_s(self) -> float:
        """By this machine's clock."""
        return self._clock.local(self._kernel.now_s)

    def living(self) -> Iterator[Box]:
        return (box for box in self.boxes.values() if box.alive)

    def prepare(self, order: StartRun) -> Box | None:
        """None: it was prepared before, so nothing is to be done."""
        if order.run_id in self.boxes:
            return None
        box = self.boxes[order.run_id] = Box(order=order, node_id=self.node_id)
        self._watch.guest_prepared(box)
        return box

    def start(self, box: Box, program: Program, step: int) -> None:
        """A run starts at most once: one that lives or has ended is left alone."""
        if box.process is not None or box.ended:
            return
        limits = self._limits.get(box.run_id)
        earlier = None if limits is None else limits.earlier()
        if earlier is not None and earlier[0] <= self.time_s():
            self._ended(box, None, earlier[1])  # its time was over before it began
            return
        # Members of a gang wait for each other at every step: wherever they are, they have one pace.
        gpus = box.order.grant.gpu_indices if box.order.seat is None else ()
        speed = min((self._gpus[i].speed for i in gpus), default=1.0)
        held = box.order.grant.gpu_indices
        box.began_s, box.resumed_step = self._kernel.now_s, step
        box.process = Process(
            self._kernel,
            program,
            speed=speed,
            step=step,
            on_saved=partial(self._saved, box),
            on_exit=lambda code: self._ended(box, code, None),
            pace=pace_of(box.run_id, program),
            gpu_bytes=min((self._gpus[i].memory_bytes for i in held), default=None),
        )
        self._watch.guest_began(box)
        if box.run_id not in self._limits:
            lease_until_s = self.time_s() + FIRST_LEASE_S
            self._limits[box.run_id] = Limits(lease_until_s=lease_until_s)
        self._arm(box.run_id)

    def limit(self, run_id: RunId, lease_until_s: float | None, kill_at_s: float | None) -> None:
        if lease_until_s is None and run_id in self._limits:
            lease_until_s = self._limits[run_id].lease_until_s
        self._limits[run_id] = Limits(lease_until_s=lease_until_s, kill_at_s=kill_at_s)
        self._arm(run_id)

    def window(self, run_id: RunId, ends_s: float | None) -> None:
        """Its program is told when its window ends, in this machine's time."""
        box = self.boxes.get(run_id)
        if box is not None and box.process is not None:
            box.process.window(None if ends_s is None else self._clock.true(ends_s), self.slowness)

    def end(self, run_id: RunId) -> None:
        """A session's program keeps what it has, and ends."""
        box = self.boxes.get(run_id)
        if box is not None and box.process is not None:
            box.process.keep_and_end()

    def sessions(self) -> list[SessionNote]:
        """Nobody works in modelled ones: they are idle from their start on."""
        return [
            SessionNote(run_id=box.run_id, ready=True, idle_s=self._kernel.now_s - box.began_s)
            for box in self.boxes.values()
            if box.alive and box.order.session is not None
        ]

    def kill(self, run_id: RunId, cause: EndReason) -> Box | None:
        """Ends the whole guest at once; one that was only prepared never starts. The first end counts."""
        box = self.boxes.get(run_id)
        if box is not None and not box.ended:
            self._ended(box, None, cause)
        return box

    def park(self, box: Box) -> None:
        """Off its GPUs, and it stands still."""
        if box.process is not None and box.alive and not box.parked:
            box.process.freeze()
            box.parked = True
            self._watch.guest_parked(box)

    def unpark(self, box: Box) -> None:
        if box.process is not None and box.alive and box.parked:
            box.parked = False
            self._watch.guest_unparked(box)
            box.process.thaw()

    def remove(self, run_id: RunId) -> None:
        box = self.boxes.get(run_id)
        if box is not None and not box.alive:
            del self.boxes[run_id]
            self._limits.pop(run_id, None)

    def power_off(self) -> None:
        """Everything dies at once and nobody is there to see it."""
        for box in self.boxes.values():
            if not box.ended:
                self._ended(box, None, None, seen=False)
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
        self._limits.clear()

    def wipe(self) -> None:
        """Nothing is left of any guest."""
        self.power_off()
        self.boxes.clear()

    def _arm(self, run_id: RunId) -> None:
        old = self._alarms.pop(run_id, None)
        if old is not None:
            old.cancel()
        box = self.boxes.get(run_id)
        earlier = self._limits[run_id].earlier()
        if box is None or not box.alive or earlier is None:
            return
        at_s, reason = earlier
        self._alarms[run_id] = self._kernel.at(
            self._clock.true(at_s), lambda: self._limit_reached(box, reason)
        )

    def _limit_reached(self, box: Box, reason: EndReason) -> None:
        self._alarms.pop(box.run_id, None)
        if box.alive:
            self._ended(box, None, reason)

    def _saved(self, box: Box, checkpoint_id: CheckpointId, step: int, stall_s: float) -> None:
        box.saved[checkpoint_id] = step
        self.on_saved(box, checkpoint_id, step, stall_s)

    def _ended(self, box: Box, code: int | None, cause: EndReason | None, *, seen: bool = True) -> None:
        was_alive = box.alive
        box.last_step = box.step
        if box.process is not None:
            box.process.kill()
        box.ended, box.exit_code, box.cause = True, code, cause
        alarm = self._alarms.pop(box.run_id, None)
        if alarm is not None:
            alarm.cancel()
        if was_alive:
            self._watch.guest_ended(box)
        if seen:
            self.on_exit(box)
