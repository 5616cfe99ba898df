"""Performs an agent's effects on a modelled machine and tells the outcomes, as long as that agent lives.

What hangs on the agent's process (restores, shipments) dies with it; what the keeper has goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import (
    AgentEffect,
    AskToSave,
    CancelShipping,
    CancelTimer,
    DropState,
    DumpParked,
    FetchState,
    KillGuest,
    LimitGuest,
    ParkGuest,
    RemoveGuest,
    SendReport,
    SetTimer,
    ShipCheckpoint,
    ShipOutput,
    StartGuest,
    TellEnd,
    TellWindow,
    TerminateGuest,
    UnparkGuest,
)
from gpunion.domain.protocol.events import (
    AgentEvent,
    GuestExited,
    GuestNotDumped,
    GuestNotParked,
    GuestNotUnparked,
    GuestParked,
    GuestSaved,
    GuestStarted,
    GuestStartFailed,
    GuestUnparked,
)
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import Tier
from gpunion.sim.machine.place import Place
from gpunion.sim.machine.shipping import Shipments
from gpunion.sim.machine.staging import Stagings
from gpunion.sim.network.flows import Flow
from gpunion.sim.program.box import Box
from gpunion.sim.scenario.values import Parks
from gpunion.sim.vault import Ruin, Sealed

# From the end of a thing to the agent knowing it.
OUTCOME_S = 0.01
# What the driver takes to move GPU memory: seen on an H200, see docs/measurements/state-on-gpu.md.
PARK_S = 0.5
PARK_BYTES_PER_S = 1.7e9
# What CRIU takes to write a guest out, seen there too; and what of a notice an agent gives it.
DUMP_S = 0.5
DUMP_BYTES_PER_S = 1.5e9
DUMP_SHARE = 0.5
# Timers and reports, most of all effects, are not for hands.
OF_THE_STATION = frozenset({SetTimer, CancelTimer, SendReport})
# What a program ends with that cannot read what it saved.
CANNOT_READ_IT = 4
# Fetching the code and making the directories.
PREPARE_S = 0.2


class Hands:
    """One life of one agent. `let_go` ends it: nothing it began is heard of again."""

    def __init__(self, place: Place, post: Callable[[AgentEvent], None]) -> None:
        self._place = place
        self._post = post
        self._alive = True
        self._restores: dict[RunId, Flow] = {}
        self._shipments = Shipments(place, self._tell)
        self._stagings = Stagings(
            place.runtime.node_id,
            shelf=place.shelf,
            vault=place.vault,
            topology=place.topology,
            tell=self._tell,
        )
        place.runtime.on_exit = self._guest_ended
        place.runtime.on_saved = self._guest_saved

    def let_go(self) -> None:
        self._alive = False
        self._place.runtime.nobody_listens()
        for flow in self._restores.values():
            self._place.topology.network.cancel(flow)
        self._shipments.stop()
        self._stagings.stop()

    def owner_has_it(self) -> None:
        """Nothing is fetched for guests that may never come."""
        self._stagings.stop()

    def perform(self, effect: AgentEffect) -> None:
        if type(effect) in OF_THE_STATION:
            return
        match effect:  # the commonest first
            case AskToSave():
                self._ask_to_save(effect)
            case ShipCheckpoint():
                self._shipments.ship_checkpoint(effect)
            case StartGuest():
                self._place.runtime.limit(effect.order.run_id, effect.lease_until_s, None)
                self._start(effect.order)
            case FetchState() | DropState():
                self._stagings.perform(effect)
            case ShipOutput():
                self._shipments.ship_output(effect)
            case CancelShipping():
                self._shipments.end(effect.run_id)
            case LimitGuest():
                self._place.runtime.limit(effect.run_id, effect.lease_until_s, effect.kill_at_s)
            case TellWindow():
                self._place.runtime.window(effect.run_id, effect.subjob.ends_s)
            case TellEnd():
                self._place.runtime.end(effect.run_id)
            case ParkGuest():
                self._park(effect)
            case UnparkGuest():
                self._unpark(effect)
            case DumpParked():
                self._dump_parked(effect)
            case TerminateGuest():
                box = self._place.runtime.boxes.get(effect.run_id)
                if box is not None and box.process is not None:
                    box.process.terminate()
            case KillGuest():
                self._kill(effect)
            case RemoveGuest():
                self._shipments.end(effect.run_id)
                self._place.runtime.remove(effect.run_id)
            case _:
                pass  # a notice changes nothing a model could show

    # --- starting --------------------------------------------------------------------------------

    def _start(self, order: StartRun) -> None:
        box = self._place.runtime.prepare(order)
        if box is None:
            return
        if not self._begin_epoch(order):
            self._fail_start(box, "a newer run of this job has begun", Why.EPOCH_USED)
            return
        sealed = self._to_go_on_from(order)
        if order.restore is not None and (sealed is None or sealed.step < order.restore_step):
            self._fail_start(box, f"no sealed checkpoint of step {order.restore_step} or later")
            return
        if sealed is not None and self._ruin_of(box, sealed) is Ruin.BLOCKS:
            detail = f"no checkpoint of {order.job_id} can be read ({sealed.checkpoint_id})"
            self._fail_start(box, detail, Why.SAVE_UNREADABLE)
            return
        began_s = self._place.kernel.now_s
        network = self._place.topology.network
        found_bytes = 0.0 if sealed is None else self._stagings.found(sealed)
        self._restores[order.run_id] = network.start(
            f"restore {order.run_id}",
            self._place.topology.from_vault(box.node_id),
            0 if sealed is None else sealed.size_bytes - found_bytes,
            lambda: self._fetched(box, sealed, began_s, found_bytes),
        )

    def _to_go_on_from(self, order: StartRun) -> Sealed | None:
        if order.seat is None:
            # A session's dump has its variables beside it, for machines that cannot bring it back.
            dumps = order.whole or order.session is not None
            return self._place.vault.latest(order.job_id, order.spoiled, dumps=dumps)
        return None if order.restore is None else self._place.vault.get(order.job_id, order.restore)

    def _begin_epoch(self, order: StartRun) -> bool:
        if not self._place.vault.begin(order.job_id, order.epoch):
            return False
        self._place.watch.vault_begun(order.job_id, order.epoch)
        return True

    def _ruin_of(self, box: Box, sealed: Sealed) -> Ruin | None:
        """A job that runs alone is given what can be read, so to that one it is always its own doing."""
        ruin = self._place.vault.ruined.get(sealed.checkpoint_id)
        return ruin if ruin is None or box.order.seat is not None else Ruin.GARBAGE

    def _fail_start(self, box: Box, detail: str, why: Why | None = None) -> None:
        box.ended, box.cause = True, EndReason.START_FAILED
        self._tell(GuestStartFailed(run_id=box.run_id, detail=detail, why=why))

    def _fetched(self, box: Box, sealed: Sealed | None, began_s: float, found_bytes: float) -> None:
        self._place.kernel.after(PREPARE_S, lambda: self._restored(box, sealed, began_s, found_bytes))

    def _restored(self, box: Box, sealed: Sealed | None, began_s: float, found_bytes: float) -> None:
        self._restores.pop(box.run_id, None)
        if not self._alive or box.ended:
            return
        step = 0 if sealed is None else sealed.reached
        program = self._place.programs[box.job_id]
        if sealed is not None and self._ruin_of(box, sealed) is not None:
            program = replace(program, fails_at_step=step, exit_code=CANNOT_READ_IT, answers_saves=False)
        self._place.runtime.start(box, program, step)
        self._tell(
            GuestStarted(
                run_id=box.run_id,
                restored=None if sealed is None else sealed.checkpoint_id,
                resumed_step=0 if sealed is None else sealed.step,
                tier=Tier.SYSTEM if sealed is not None and sealed.whole else Tier.APP,
                restore_s=self._place.kernel.now_s - began_s,
                found_bytes=int(found_bytes),
            )
        )

    # --- saving ----------------------------------------------------------------------------------

    def _ask_to_save(self, effect: AskToSave) -> None:
        box = self._place.runtime.boxes.get(effect.run_id)
        if box is not None and box.process is not None and effect.dump:
            self._dump_whole(box, effect)
        elif box is not None and box.process is not None:
            slowness = self._place.runtime.slowness
            box.process.ask_to_save(
                effect.checkpoint_id, final=effect.final, slowness=slowness, at_step=effect.at_step
            )

    def _guest_saved(self, box: Box, checkpoint_id: CheckpointId, step: int, stall_s: float) -> None:
        program = self._place.programs[box.job_id]
        self._tell(
            GuestSaved(
                run_id=box.run_id,
                checkpoint_id=checkpoint_id,
                step=program.told(step),
                progress=program.told_progress(step),
                stall_s=stall_s,
            )
        )

    def _dump_whole(self, box: Box, effect: AskToSave) -> None:
        """It stands still meanwhile, and after it for its end: whoever asked for this has it go."""
        assert box.process is not None
        box.process.freeze()
        size_bytes = self._place.programs[box.job_id].state_bytes
        took_s = DUMP_S + self._place.runtime.slowness * size_bytes / DUMP_BYTES_PER_S

        def written() -> None:
            if self._alive and box.alive and not box.parked:
                self._tell(self._as_dumped(box, effect.checkpoint_id, took_s))

        self._place.kernel.after(took_s, written)

    # --- parking ---------------------------------------------------------------------------------

    def _park(self, effect: ParkGuest) -> None:
        """The driver has it moved after a while, and the guest stands still from then on."""
        began_s = self._place.kernel.now_s
        habit, left_s = self._parks_how(effect.run_id), effect.by_s - self._place.runtime.time_s()
        if habit is Parks.NOT or left_s <= 0.0:
            why = "its driver does not move it" if habit is Parks.NOT else "it came too late"
            self._tell(GuestNotParked(run_id=effect.run_id, detail=why))
            return
        if habit is Parks.NEVER_DONE:
            late = GuestNotParked(run_id=effect.run_id, detail="its driver did not answer in time")
            self._place.kernel.after(left_s, lambda: self._tell(late))
            return

        def moved() -> None:
            box = self._place.runtime.boxes.get(effect.run_id)
            if not self._alive or box is None or box.process is None or not box.alive:
                self._tell(GuestNotParked(run_id=effect.run_id, detail="it is gone"))
                return
            self._place.runtime.park(box)
            took_s = self._place.kernel.now_s - began_s
            size_bytes = self._place.programs[box.job_id].state_bytes
            self._tell(GuestParked(run_id=effect.run_id, moved_bytes=size_bytes, took_s=took_s))

        self._place.kernel.after(self._moving_s(effect.run_id), moved)

    def _parks_how(self, run_id: RunId) -> Parks:
        box = self._place.runtime.boxes.get(run_id)
        return Parks.WELL if box is None else self._place.programs[box.job_id].parks

    def _unpark(self, effect: UnparkGuest) -> None:
        took_s = self._moving_s(effect.run_id)

        def moved() -> None:
            box = self._place.runtime.boxes.get(effect.run_id)
            if not self._alive or box is None or box.process is None or not box.alive:
                self._tell(GuestNotUnparked(run_id=effect.run_id, detail="it is gone"))
                return
            self._place.runtime.unpark(box)
            self._tell(GuestUnparked(run_id=effect.run_id, took_s=took_s))

        self._place.kernel.after(took_s, moved)

    def _dump_parked(self, effect: DumpParked) -> None:
        """As it stands; a disk that is too slow for the time it may take leaves it where it is."""
        box = self._place.runtime.boxes.get(effect.run_id)
        if box is None:
            return
        size_bytes = self._place.programs[box.job_id].state_bytes
        took_s = DUMP_S + self._place.runtime.slowness * size_bytes / DUMP_BYTES_PER_S
        limit_s = DUMP_SHARE * (effect.by_s - self._place.runtime.time_s())
        written = partial(self._dumped, box, effect.checkpoint_id, took_s <= limit_s)
        self._place.kernel.after(max(0.0, min(took_s, limit_s)), written)

    def _dumped(self, box: Box, checkpoint_id: CheckpointId, in_time: bool) -> None:
        if not self._alive or not box.alive or not box.parked:
            return  # its end is told by itself
        if not in_time:
            why = "it took too long"
            self._tell(GuestNotDumped(run_id=box.run_id, checkpoint_id=checkpoint_id, why=why))
            return
        self._tell(self._as_dumped(box, checkpoint_id, 0.0))

    def _as_dumped(self, box: Box, checkpoint_id: CheckpointId, stall_s: float) -> GuestSaved:
        program = self._place.programs[box.job_id]
        box.saved[checkpoint_id] = box.step
        return GuestSaved(
            run_id=box.run_id,
            checkpoint_id=checkpoint_id,
            step=program.told(box.step),
            progress=program.told_progress(box.step),
            stall_s=stall_s,
            tier=Tier.SYSTEM,
            size_bytes=program.state_bytes,
        )

    def _moving_s(self, run_id: RunId) -> float:
        box = self._place.runtime.boxes.get(run_id)
        size_bytes = 0 if box is None else self._place.programs[box.job_id].state_bytes
        return PARK_S + size_bytes / PARK_BYTES_PER_S

    # --- ending ----------------------------------------------------------------------------------

    def _kill(self, effect: KillGuest) -> None:
        restore = self._restores.pop(effect.run_id, None)
        if restore is not None:
            self._place.topology.network.cancel(restore)
        box = self._place.runtime.boxes.get(effect.run_id)
        if box is None:
            self._tell(GuestExited(run_id=effect.run_id, exit_code=None, last_step=0, cause=effect.cause))
        elif box.ended:
            self._guest_ended(
                box
            )  # killing what is gone tells of its end again: the first telling may be lost
        else:
            self._place.runtime.kill(effect.run_id, effect.cause)

    def _guest_ended(self, box: Box) -> None:
        in_windows = box.process is not None and box.order.subjob is not None
        self._tell(
            GuestExited(
                run_id=box.run_id,
                exit_code=box.exit_code,
                last_step=box.told_step,
                last_progress=box.told_progress if in_windows else 0.0,  # of others nothing depends on it
                cause=box.cause,
                seen=box.process.seen() if in_windows and box.process is not None else None,
            )
        )

    def _tell(self, event: AgentEvent) -> None:
        self._place.kernel.after(OUTCOME_S, partial(self._told, event))

    def _told(self, event: AgentEvent) -> None:
        if self._alive:
            self._post(event)
