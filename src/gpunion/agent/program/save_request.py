"""Asking a guest's program to save itself, and hearing that it did."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from dataclasses import replace

from gpunion.agent.dependencies import World
from gpunion.agent.program.messages import (
    NOTICE_FILE,
    REQUEST_FILE,
    WINDOW_FILE,
    read_not_saved,
    read_saved,
)
from gpunion.agent.run_records.notes import RunNote
from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.window import Subjob
from gpunion.domain.protocol.effects import AskToSave
from gpunion.domain.protocol.events import CheckpointNotShipped, GuestCouldNotSave, GuestSaved
from gpunion.files import NO_ROOM
from gpunion.ports.runtime import RuntimeFault

# A program answers between two steps; looking more often than this would not make it faster.
LOOK_S = 0.05
# Of the notice, for a session's variables before a dump is tried.
BEFOREHAND_SHARE = 0.25
BEFOREHAND_LIMIT_S = 30.0
PERIODIC, LEAVING = "checkpoint", "leaving"


class NotAsked(Exception):
    """The request could not be left for the program: its disk does not take it."""

    def __init__(self, fault: RuntimeFault) -> None:
        super().__init__(str(fault))
        cause = fault.__cause__
        full = isinstance(cause, OSError) and cause.errno in NO_ROOM
        self._trouble = CheckpointTrouble.DISK_FULL if full else CheckpointTrouble.DISK_FAILED

    def told(self, effect: AskToSave) -> CheckpointNotShipped:
        return CheckpointNotShipped(
            run_id=effect.run_id, checkpoint_id=effect.checkpoint_id, trouble=self._trouble, detail=str(self)
        )


class Request:
    """One save that was asked for. It may be looked for as often as wished, and is answered once."""

    def __init__(self, world: World, note: RunNote, effect: AskToSave) -> None:
        self.effect = effect
        self._world = world
        self._note = note
        self._asked_s = world.clock.now_s()

    async def ask(self) -> None:
        """NotAsked where that may work later."""
        message = {
            "id": self.effect.checkpoint_id,
            "deadline": None if self.effect.by_s is None else unix_time_s(self._world, self.effect.by_s),
            "reason": LEAVING if self.effect.final else PERIODIC,
            "final": self.effect.final,
        }
        if self.effect.at_step:
            message["at_step"] = self.effect.at_step
        control_dir = self._note.paths.control_dir
        try:
            await asyncio.to_thread(self._world.control.write_json, control_dir, REQUEST_FILE, message)
        except RuntimeFault as fault:
            if not fault.temporary:
                raise
            raise NotAsked(fault) from fault
        try:
            await self._world.runtime.signal(self._note.run_id, signal.SIGUSR1)
        except RuntimeFault:
            return  # the file is there; the signal only makes it faster

    async def answered(self) -> GuestSaved:
        told = ""
        while True:
            saved = await asyncio.to_thread(self.look)
            if saved is not None:
                return saved
            said = await asyncio.to_thread(self.look_for_trouble)
            if said and said != told:
                told, name = said, self.effect.checkpoint_id
                self._world.post(GuestCouldNotSave(run_id=self._note.run_id, checkpoint_id=name, why=said))
            await asyncio.sleep(LOOK_S)

    def look_for_trouble(self) -> str:
        return read_not_saved(self._world.control, self._note.paths.control_dir, self.effect.checkpoint_id)

    def look(self) -> GuestSaved | None:
        marker = read_saved(self._world.control, self._note.paths.control_dir)
        if marker is None or marker.id != self.effect.checkpoint_id:
            return None
        waited_s = max(0.0, self._world.clock.now_s() - self._asked_s)
        return GuestSaved(
            run_id=self._note.run_id,
            checkpoint_id=self.effect.checkpoint_id,
            step=marker.step,
            progress=marker.progress,
            stall_s=waited_s if marker.stall_s is None else max(0.0, marker.stall_s),
            capture_s=waited_s,
            counted=marker.counted,
        )


async def saved_beforehand(world: World, note: RunNote, effect: AskToSave) -> None:
    """Its program saves what it can into its own directory, which goes along with a dump: where that cannot
    be brought back, this is read. Whether it did or not, what comes next is tried."""
    limit_s = BEFOREHAND_LIMIT_S
    if effect.by_s is not None:
        limit_s = min(limit_s, BEFOREHAND_SHARE * (effect.by_s - world.clock.now_s()))
    if limit_s <= 0:
        return
    before = replace(
        effect,
        checkpoint_id=CheckpointId(f"{effect.checkpoint_id}-before"),
        final=False,
        by_s=world.clock.now_s() + limit_s,
    )
    request = Request(world, note, before)
    with suppress(NotAsked, TimeoutError):
        await request.ask()
        await asyncio.wait_for(request.answered(), limit_s)


def tell_notice(world: World, note: RunNote, deadline_s: float | None, reason: str = "") -> None:
    """Blocks for a small write. Without a deadline the notice is taken back."""
    control_dir = note.paths.control_dir
    if deadline_s is None:
        world.control.delete(control_dir, NOTICE_FILE)
        return
    message = {
        "reason": reason or "the owner wants the machine back",
        "deadline": unix_time_s(world, deadline_s),
        "gpus": list(note.gpu_indices),
        "planned": False,
    }
    world.control.write_json(control_dir, NOTICE_FILE, message)


def tell_window(world: World, note: RunNote, subjob: Subjob) -> None:
    """Blocks for a small write. A window without an end is as if there were none."""
    control_dir = note.paths.control_dir
    if subjob.ends_s is None:
        world.control.delete(control_dir, WINDOW_FILE)
        return
    message = {
        "ends": unix_time_s(world, subjob.ends_s),
        "hard": subjob.hard,
        "because": subjob.end.value,
        "save_s": subjob.save_s,
        "number": subjob.number,
    }
    world.control.write_json(control_dir, WINDOW_FILE, message)


def unix_time_s(world: World, at_s: float) -> float:
    """For programs, which have no use for our clock."""
    return time.time() + (at_s - world.clock.now_s())
