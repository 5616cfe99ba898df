"""Asking a guest's program to save itself, and hearing that it did."""

from __future__ import annotations

import asyncio
import signal
import time

from gpunion.agent.control import NOTICE_FILE, REQUEST_FILE, read_not_saved, read_saved
from gpunion.agent.run_notes import RunNote
from gpunion.agent.world import World
from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.effects import AskToSave
from gpunion.domain.events import CheckpointNotShipped, GuestCouldNotSave, GuestSaved
from gpunion.owner_kill.records import NO_ROOM
from gpunion.ports.runtime import RuntimeFault

# A program answers between two steps; looking more often than this would not make it faster.
LOOK_S = 0.05
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
        )


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


def unix_time_s(world: World, at_s: float) -> float:
    """For programs, which have no use for our clock."""
    return time.time() + (at_s - world.clock.now_s())
