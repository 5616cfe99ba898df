"""Does what was decided. Each effect becomes work beside the loop; its outcome comes back as an event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import assert_never

import structlog

from gpunion.agent.checkpoints.staging import Stager
from gpunion.agent.dependencies import World
from gpunion.agent.guests.controller import GuestHands
from gpunion.agent.guests.exits import cause_of, used_of
from gpunion.agent.link.log_upload import LogPusher
from gpunion.agent.machine.image_budget import NoRoom
from gpunion.agent.machine.images import ImageKeeper, ImageTrouble
from gpunion.agent.program.messages import Reached, read_reached
from gpunion.agent.program.piece import piece_of
from gpunion.domain.ids import RunId
from gpunion.domain.image import Parcel
from gpunion.domain.protocol.effects import (
    AgentEffect,
    AskToSave,
    CancelShipping,
    CancelTimer,
    DropState,
    DumpParked,
    FetchAhead,
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
    TellNotice,
    TellWindow,
    TerminateGuest,
    UnparkGuest,
)
from gpunion.domain.protocol.events import GuestFound
from gpunion.domain.protocol.frames import Progress
from gpunion.domain.protocol.orders import StartRun
from gpunion.ports.coordinator_link import LinkFault
from gpunion.ports.images import ImageFault

log = structlog.get_logger()


class Performer:
    def __init__(self, world: World, logs: LogPusher, lending: Callable[[], bool] = lambda: True) -> None:
        self._world = world
        self._logs = logs
        self._hands: dict[RunId, GuestHands] = {}
        self._removals: dict[RunId, asyncio.Task[None]] = {}
        self._lending = lending
        self._ahead: set[asyncio.Task[None]] = set()
        self._stager = None if world.ready is None else Stager(world, world.ready, lending)

    def perform(self, effect: AgentEffect) -> None:
        """Never waits. At least once per committed effect, so everything here can be repeated."""
        match effect:
            case StartGuest():
                self._make_way(effect.order)
                self._of(effect.order.run_id).start(effect)
            case FetchAhead():
                self._fetch_ahead(effect)
            case AskToSave():
                self._of(effect.run_id).ask_to_save(effect)
            case ShipCheckpoint():
                self._of(effect.run_id).ship(effect)
            case CancelShipping():
                self._of(effect.run_id).cancel_shipping()
            case ShipOutput():
                self._of(effect.run_id).ship_output(self._reached(effect.run_id).step, effect.keep)
            case TellNotice():
                self._of(effect.run_id).notice(effect.deadline_s, effect.reason)
            case TellWindow():
                self._of(effect.run_id).tell_window(effect.subjob)
            case TellEnd():
                self._of(effect.run_id).tell_end(effect.because)
            case LimitGuest():
                self._of(effect.run_id).limit(effect)
            case ParkGuest():
                # One that was dumped and ended has given its memory back, whatever lies beside its files.
                beside = [other for other, hands in self._hands.items() if not hands.gone]
                self._of(effect.run_id).park(effect.by_s, beside)
            case UnparkGuest():
                self._of(effect.run_id).unpark()
            case DumpParked():
                self._of(effect.run_id).dump_parked(effect)
            case TerminateGuest():
                self._of(effect.run_id).terminate()
            case KillGuest():
                self._of(effect.run_id).kill(effect.cause)
            case RemoveGuest():
                self.remove(effect.run_id)
            case SetTimer() | CancelTimer() | SendReport():
                return  # the station's
            case FetchState() | DropState():
                self._stage(effect)
            case _:
                assert_never(effect)

    @property
    def staging(self) -> bool:
        """Whether anything is being fetched ahead."""
        return self._stager is not None and self._stager.busy

    def _make_way(self, order: StartRun) -> None:
        """It is here: nothing more is fetched ahead, and others may have what it saves here."""
        if self._stager is not None:
            self._stager.break_off(order.job_id)
        if self._world.desk is not None:
            self._world.desk.welcome(order.job_id, order.run_key)

    def _stage(self, effect: FetchState | DropState) -> None:
        if self._stager is None:
            return  # a hint, and no states lie ready on this machine
        match effect:
            case FetchState(order=order):
                self._stager.fetch(order)
            case DropState(job_id=job_id):
                self._stager.drop(job_id)
                if self._world.desk is not None:
                    self._world.desk.forget(job_id)

    def _fetch_ahead(self, effect: FetchAhead) -> None:
        if self._world.images is not None:
            task = asyncio.get_running_loop().create_task(self._have_image(self._world.images, effect.parcel))
            self._ahead.add(task)
            task.add_done_callback(self._ahead.discard)

    async def _have_image(self, images: ImageKeeper, parcel: Parcel) -> None:
        try:
            await images.have(parcel, None, lambda: not self._lending())
        except (ImageTrouble, ImageFault, LinkFault, NoRoom, OSError) as trouble:
            log.info("image_not_fetched_ahead", image=parcel.image.ref, trouble=str(trouble))

    async def find(self) -> tuple[GuestFound, ...]:
        """What a starting agent finds of its guests, for the engine to decide about."""
        found = []
        for status in await self._world.runtime.guests():
            run_id = RunId(status.run_id)
            note = self._world.run_notes.get(run_id)
            if note is None and not status.alive:
                await self._world.runtime.remove(run_id)  # prepared by half, or buried by half
                continue
            reached = await asyncio.to_thread(self._reached, run_id)
            gone = note if not status.alive else None
            found.append(
                GuestFound(
                    run_id=run_id,
                    alive=status.alive,
                    exit_code=status.exit_code,
                    last_step=reached.step,
                    last_progress=reached.progress,
                    cause=cause_of(status, None),
                    seen=None if gone is None else await asyncio.to_thread(piece_of, self._world, gone),
                    used=used_of(status, None),
                )
            )
        return tuple(found)

    def adopt(self, found: Iterable[GuestFound]) -> None:
        """Before the engine decides about them: from now on the end of the living is noticed."""
        for guest in found:
            hands = self._of(guest.run_id)
            note = hands.note
            if note is not None:
                self._logs.follow(guest.run_id, note.paths.log_file)
                if self._world.desk is not None:
                    self._world.desk.welcome(note.job_id, note.run_key)
            if guest.alive:
                hands.watch()
            else:
                hands.gone = True

    def bury(self, found: Iterable[GuestFound], known: Iterable[RunId]) -> None:
        """After the engine decided: nothing stays of guests that nobody remembers."""
        here = {guest.run_id for guest in found} | {note.run_id for note in self._world.run_notes.all()}
        for run_id in sorted(here - set(known)):
            self.remove(run_id)

    def remove(self, run_id: RunId) -> None:
        if run_id in self._removals:
            return
        hands = self._hands.pop(run_id, None) or GuestHands(self._world, run_id)
        note = hands.note
        if note is not None:
            self._logs.keep_rest(run_id, note.paths.log_file)
        task = asyncio.get_running_loop().create_task(hands.remove())
        self._removals[run_id] = task
        task.add_done_callback(lambda _: self._removals.pop(run_id))

    def progress(self) -> tuple[Progress, ...]:
        """How far each guest is, as its program says. Reads small files: called from a thread."""
        living = [hands for hands in list(self._hands.values()) if not hands.gone and hands.note is not None]
        told = []
        for hands in living:
            note = hands.note
            if note is not None:
                reached = read_reached(self._world.control, note.paths)
                if reached.step == 0:
                    continue  # it has said nothing yet; a resumed one is further than that
                told.append(Progress(run_id=hands.run_id, step=reached.step, progress=reached.progress))
        return tuple(told)

    async def small_things_done(self) -> None:
        """Until limits and words decided so far have reached their guests' keepers."""
        for hands in list(self._hands.values()):
            await hands.small_things_done()

    async def settle(self) -> None:
        """Wait for guests that are being removed: what an agent that leaves owes its owner."""
        while self._removals:
            await asyncio.wait(self._removals.values())

    def _of(self, run_id: RunId) -> GuestHands:
        hands = self._hands.get(run_id)
        if hands is None:
            hands = self._hands[run_id] = GuestHands(self._world, run_id, self._logs.follow)
        return hands

    def _reached(self, run_id: RunId) -> Reached:
        note = self._world.run_notes.get(run_id)
        return (
            Reached(step=0, progress=0.0) if note is None else read_reached(self._world.control, note.paths)
        )
