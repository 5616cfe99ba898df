"""One guest's hands: what is being done for or to it right now. Every method may be called again."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import structlog

from gpunion.agent.checkpoints.shipments import Shipments
from gpunion.agent.checkpoints.shipping import Cancelled
from gpunion.agent.checkpoints.whole_guest import HOLD_LIMIT_S, Dump, dump_guest, let_go
from gpunion.agent.dependencies import World
from gpunion.agent.guests.exits import cause_of, detail_of, exit_reason_for, used_of
from gpunion.agent.guests.parked import parked, parked_dumped, unparked
from gpunion.agent.guests.start import Start, StartTrouble, start_guest
from gpunion.agent.program.messages import read_reached
from gpunion.agent.program.piece import piece_of
from gpunion.agent.program.save_request import (
    NotAsked,
    Request,
    saved_beforehand,
    tell_notice,
    tell_window,
)
from gpunion.agent.program.session_end import tell_end
from gpunion.agent.run_records.notes import RunNote
from gpunion.agent.tasks import GuestTasks, in_own_thread
from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.window import Subjob
from gpunion.domain.protocol.effects import AskToSave, DumpParked, LimitGuest, ShipCheckpoint, StartGuest
from gpunion.domain.protocol.events import GuestExited, GuestNotDumped, GuestSaved, GuestStartFailed
from gpunion.domain.protocol.frames import SaveStage
from gpunion.domain.system_tier import Tier
from gpunion.ports.checkpointer import DumpRefused
from gpunion.ports.runtime import GuestStatus, RuntimeFault

# Between two tries to end processes that a stuck driver or disk keeps from dying.
KILL_AGAIN_S = 1.0
WATCH_AGAIN_S = 0.5
ASK_AGAIN_S = 0.5  # of a disk that did not take the request for a last save
# How long a program that saved for the last time has to leave by itself, and how often is looked.
LEAVE_S = 2.0
LEAVE_LOOK_S = 0.02

FollowLog = Callable[[str, Path], None]

log = structlog.get_logger()


class GuestHands:
    def __init__(
        self, world: World, run_id: RunId, follow_log: FollowLog = lambda run_id, path: None
    ) -> None:
        self.run_id = run_id
        self._follow_log = follow_log
        self.gone = False  # its end was posted
        self._world = world
        self._tasks = GuestTasks(run_id)
        self._limits: LimitGuest | None = None
        self._cause: EndReason | None = None  # why this agent ended it
        self._stop_start = Cancelled()
        self._starting: asyncio.Task[None] | None = None
        self._request: Request | None = None
        self._saving: asyncio.Task[None] | None = None
        self._dumping = asyncio.Lock()
        self._dumped_for: CheckpointId | None = None  # a save of it where it stands parked
        self._holding: asyncio.Task[None] | None = None  # lets go of it if nobody ends it
        self._shipments = Shipments(world, run_id, self._tasks)
        self._watch: asyncio.Task[None] | None = None

    @property
    def note(self) -> RunNote | None:
        return self._world.run_notes.get(self.run_id)

    # --- coming ----------------------------------------------------------------------------------

    def start(self, effect: StartGuest) -> None:
        if self._starting is not None:
            return
        if self._limits is None:
            self._limits = LimitGuest(run_id=self.run_id, lease_until_s=effect.lease_until_s, kill_at_s=None)
        self._starting = self._tasks.begin(self._start(effect))

    def watch(self) -> None:
        """From now on its end is noticed. For a guest that was just started, or found alive."""
        if self._watch is None:
            self._watch = self._tasks.begin(self._watch_exit())

    async def _start(self, effect: StartGuest) -> None:
        start = Start(order=effect.order, limit=self._apply_limits, cancelled=self._stop_start)
        try:
            started = await start_guest(self._world, start)
        except StartTrouble as trouble:
            if self._cause is None and not self.gone:
                self.gone = True
                failed = GuestStartFailed(run_id=self.run_id, detail=str(trouble), why=trouble.why)
                self._world.post(failed)
            return
        except Exception as bug:
            self.gone = True
            self._world.post(GuestStartFailed(run_id=self.run_id, detail=f"a fault in the agent: {bug!r}"))
            raise
        if self._cause is None:
            self._world.post(started)
        note = self.note
        if note is not None:
            self._follow_log(self.run_id, note.paths.log_file)
        self.watch()

    # --- limits and words ------------------------------------------------------------------------

    def limit(self, effect: LimitGuest) -> None:
        self._limits = effect
        if self.note is not None:
            self._tasks.in_turn(self._apply_limits())

    async def _apply_limits(self) -> None:
        limits = self._limits
        if limits is not None:
            await self._world.runtime.limit(self.run_id, limits.lease_until_s, limits.kill_at_s)

    async def small_things_done(self) -> None:
        await self._tasks.turns_done()

    def notice(self, deadline_s: float | None, reason: str = "") -> None:
        note = self.note
        if note is not None:
            self._tasks.in_turn(asyncio.to_thread(tell_notice, self._world, note, deadline_s, reason))

    def tell_window(self, subjob: Subjob) -> None:
        if self.note is not None:
            self._tasks.in_turn(asyncio.to_thread(tell_window, self._world, self.note, subjob))

    def tell_end(self, because: str) -> None:
        note = self.note
        if note is not None:
            self._tasks.in_turn(asyncio.to_thread(tell_end, self._world.control, note, because))

    # --- parking ---------------------------------------------------------------------------------

    def park(self, by_s: float, beside: Iterable[str]) -> None:
        self._tasks.begin(self._park(by_s, tuple(beside)))  # not in turn: leases are renewed meanwhile

    async def _park(self, by_s: float, beside: tuple[str, ...]) -> None:
        # A dump that is under way would wake it when it is done; and nobody waits on what is frozen.
        async with self._dumping, self._world.gate.withheld(self.run_id):
            note = None if self.gone else self.note
            self._world.post(await parked(self._world, self.run_id, note, by_s, beside))

    def unpark(self) -> None:
        self._tasks.begin(self._unpark())

    async def _unpark(self) -> None:
        async with self._dumping:  # a dump that is given up has to be over first
            self._world.post(await unparked(self._world, self.run_id, self.note))

    def dump_parked(self, effect: DumpParked) -> None:
        if self.gone or effect.checkpoint_id == self._dumped_for:
            return  # its end is told by itself; the other is under way
        self._dumped_for = effect.checkpoint_id
        self._saving = self._tasks.begin(self._dump_parked(effect))

    async def _dump_parked(self, effect: DumpParked) -> None:
        async with self._dumping:
            outcome = await parked_dumped(self._world, self.run_id, self.note, effect)
        if isinstance(outcome, GuestNotDumped):
            self._dumped_for = None
        self._world.post(outcome)

    # --- saving ----------------------------------------------------------------------------------

    def ask_to_save(self, effect: AskToSave) -> None:
        note = self.note
        if note is None or self.gone:
            return  # a timer of the engine's bounds the wait
        if self._saving is not None:
            self._saving.cancel()
        self._request = Request(self._world, note, effect)
        self._saving = self._tasks.begin(self._await_save(self._request))

    async def _await_save(self, request: Request) -> None:
        saved = await self._dump(request)
        if saved is None:
            if not await self._asked(request):
                return
            saved = await request.answered()
        if self._request is request:
            self._request = None
            self._world.post(saved)
            if saved.tier is Tier.SYSTEM and request.effect.final:
                self._holding = self._tasks.begin(self._let_go_if_kept())

    async def _asked(self, request: Request) -> bool:
        """A last save is asked for until the disk takes the request; after others comes the next one.

        A program that nobody could ask must not be told to have kept silent."""
        while True:
            try:
                async with self._tasks.in_order:
                    await request.ask()
                return True
            except NotAsked as fault:
                effect = request.effect
                log.warning("guest_not_asked", run=self.run_id, trouble=str(fault))
                if not effect.final:
                    self._request = None
                    self._world.post(fault.told(effect))
                    return False
            await asyncio.sleep(ASK_AGAIN_S)

    async def _dump(self, request: Request) -> GuestSaved | None:
        """The whole guest, where its job is saved that way; None: its program has to save itself."""
        note, effect = self.note, request.effect
        whole = effect.dump or (note is not None and note.session and effect.whole)
        if note is None or not (note.tier is Tier.SYSTEM or whole):
            return None
        saves = self._world.saves
        try:
            if note.session:  # a dump may be refused, here or where it goes
                await saved_beforehand(self._world, note, effect)
            async with self._dumping, self._undisturbed(effect):
                saves.say(self.run_id, effect.checkpoint_id, SaveStage.DUMPING)
                saved = await dump_guest(self._world, note, Dump.asked_by(effect))
                if effect.final:
                    self._dumped_for = effect.checkpoint_id  # it stands still, and does not leave by itself
                return saved
        except DumpRefused as refused:
            log.warning("guest_not_dumped", run=self.run_id, trouble=str(refused))
            why = GuestNotDumped(run_id=self.run_id, checkpoint_id=effect.checkpoint_id, why=str(refused))
            self._world.post(why)
            return None
        finally:
            saves.clear(self.run_id, effect.checkpoint_id)

    @contextlib.asynccontextmanager
    async def _undisturbed(self, effect: AskToSave) -> AsyncIterator[None]:
        """No stream leads to it: a dump is refused while somebody is connected from outside. Who is inside
        keeps it from every save but the last."""
        gate = self._world.gate
        if gate.entered(self.run_id) and not effect.final:
            raise DumpRefused("somebody is inside: attached, or at one of its ports")
        async with gate.withheld(self.run_id):
            yield
            if effect.final:
                gate.withhold(self.run_id)  # it stands still for its end

    async def _let_go_if_kept(self) -> None:
        """It stands still for its end. If that does not come, its last save was not wanted any more."""
        await asyncio.sleep(HOLD_LIMIT_S)
        await let_go(self._world, self.run_id)
        self._world.gate.allow(self.run_id)
        self._dumped_for = None

    # --- shipping --------------------------------------------------------------------------------

    def ship(self, effect: ShipCheckpoint) -> None:
        self._shipments.ship(effect, still=self.gone)

    def ship_output(self, step: int, keep: CheckpointId | None = None) -> None:
        self._shipments.ship_output(step, keep)

    def cancel_shipping(self) -> None:
        self._shipments.cancel()

    # --- going -----------------------------------------------------------------------------------

    def terminate(self) -> None:
        if self._starting is not None and not self._starting.done():
            self.kill(EndReason.STOPPED)  # there is no program yet that could tidy up
        else:
            self._tasks.in_turn(self._world.runtime.signal(self.run_id, signal.SIGTERM))

    def kill(self, cause: EndReason) -> None:
        """At once, ahead of everything else that is being done for this guest.

        Only a program that answered its last save is let go by itself for a moment: it ends with status 85,
        and may have something of its own to close on the way.
        """
        self._cause = self._cause or cause
        self._stop_start.ask()
        note = self.note
        by_itself = note is not None and note.tier is not Tier.SYSTEM and self._dumped_for is None
        leaving = cause is EndReason.SAVED and by_itself
        self._tasks.begin(self._let_leave(cause) if leaving else self._kill(cause))

    async def _let_leave(self, cause: EndReason) -> None:
        until_s = time.monotonic() + LEAVE_S
        while not self.gone and time.monotonic() < until_s:
            await asyncio.sleep(LEAVE_LOOK_S)
        if not self.gone:
            await self._kill(cause)

    async def _kill(self, cause: EndReason) -> None:
        while True:
            try:
                status = await self._world.runtime.kill(self.run_id, exit_reason_for(cause))
                break
            except Exception as trouble:  # even a bug must not save a guest that has to go
                log.error("guest_does_not_die", run=self.run_id, trouble=repr(trouble))
                await asyncio.sleep(KILL_AGAIN_S)
        await self._ended(status)

    async def _watch_exit(self) -> None:
        while True:
            try:
                status: GuestStatus | None = await self._world.runtime.wait_exit(self.run_id)
                break
            except RuntimeFault as fault:
                if not fault.temporary:
                    status = None
                    break
                await asyncio.sleep(WATCH_AGAIN_S)
        await self._ended(status)

    async def _ended(self, status: GuestStatus | None) -> None:
        note, request = self.note, self._request
        step, progress, piece = 0, 0.0, None
        if note is not None:
            # A program that saved and left at once: first the save, then its end.
            saved = await asyncio.to_thread(request.look) if request is not None else None
            reached = await asyncio.to_thread(read_reached, self._world.control, note.paths)
            step, progress = reached.step, reached.progress
            piece = await asyncio.to_thread(piece_of, self._world, note)
            if saved is not None and self._request is request and not self.gone:
                self._request = None
                self._world.post(saved)
        if self._cause is None and note is not None and note.gpu_indices and _failed(status):
            await self._world.look_at_gpus()  # a GPU that died under it is why, not the program
        if self.gone:
            return
        self.gone = True
        self._world.gate.forget(self.run_id)
        for task in (self._saving, self._holding):
            if task is not None:
                task.cancel()
        self._world.post(
            GuestExited(
                run_id=self.run_id,
                exit_code=None if status is None else status.exit_code,
                last_step=step,
                last_progress=progress,
                cause=self._cause if status is None else cause_of(status, self._cause),
                detail="" if status is None else detail_of(status),
                seen=piece,
                used=used_of(status, self._world.gpu_use(self.run_id)),
            )
        )

    async def remove(self) -> None:
        """Leaves nothing of the guest behind. Waits for what is still being done for it."""
        self._stop_start.ask()
        self.cancel_shipping()
        if self._saving is not None:
            self._saving.cancel()
        await self._tasks.others_done()
        while True:
            try:
                await self._world.runtime.remove(self.run_id)
                break
            except RuntimeFault as fault:
                log.error("guest_not_removed", run=self.run_id, trouble=str(fault))
                if not fault.temporary:
                    break
                await asyncio.sleep(KILL_AGAIN_S)
        await in_own_thread(lambda: shutil.rmtree(self._world.spool(self.run_id), ignore_errors=True))
        await asyncio.to_thread(self._world.run_notes.forget, self.run_id)
        if self._world.environments is not None:
            self._world.environments.let_go(self.run_id)


def _failed(status: GuestStatus | None) -> bool:
    return status is None or status.exit_code != 0
