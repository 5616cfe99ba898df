"""Watches the room on the disk that guests and agent share, and tells owner and campus before it is gone.

A program whose disk is full may fail in any way, or go on and save nothing. So nobody new comes while room is
short, and who is here is told in time; when there is room again, everything is as before.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from gpunion.agent.loop import AgentLoop
from gpunion.domain.nodes.node import DISK_SHORT_BYTES, DiskRoom

# A guest that writes as fast as a disk takes it is seen some seconds before the end.
LOOK_EVERY_S = 2.0
SHORT_BYTES, FULL_BYTES = DISK_SHORT_BYTES, DISK_SHORT_BYTES // 16
SHORT_FILES, FULL_FILES = 1000, 50  # a disk can also run out of what it keeps names of files in
# Room has to be well above a limit to count as back: a log that grows must not be told of every minute.
BACK_FACTOR = 1.25

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """`files`: how many more there can be; None where the file system has no such limit."""

    free_bytes: int
    files: int | None = None

    def judged(self, before: DiskRoom) -> DiskRoom:
        if self._below(FULL_BYTES, FULL_FILES, again=before is DiskRoom.FULL):
            return DiskRoom.FULL
        if self._below(SHORT_BYTES, SHORT_FILES, again=before is not DiskRoom.FINE):
            return DiskRoom.SHORT
        return DiskRoom.FINE

    def _below(self, size_bytes: int, files: int, *, again: bool) -> bool:
        factor = BACK_FACTOR if again else 1.0
        few_files = self.files is not None and self.files < files * factor
        return self.free_bytes < size_bytes * factor or few_files


def room_on(folder: Path) -> Room:
    """What is left to users who are not root: guests are none."""
    found = os.statvfs(folder)
    free_bytes = found.f_bavail * found.f_frsize
    return Room(free_bytes=free_bytes, files=found.f_favail if found.f_files else None)


class DiskWatch:
    def __init__(
        self,
        *,
        folder: Path,
        loop: AgentLoop,
        greet_again: Callable[[], None],
        look_at: Callable[[Path], Room] = room_on,
    ) -> None:
        self._folder = folder
        self._loop = loop
        self._greet_again = greet_again
        self._look_at = look_at
        self._last: Room | None = None
        self._not_taken = ""  # why the agent's memory could not be written when it was last looked

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        try:
            self._last = await asyncio.to_thread(self._look_at, self._folder)
        except OSError as error:
            log.warning("disk_not_seen", folder=str(self._folder), trouble=error.strerror)
            return
        station = self._loop.station
        before = station.facts
        # Neither a quota nor a broken disk shows in what a file system says of itself.
        self._not_taken = self._loop.forgettable
        disk = DiskRoom.FULL if self._not_taken else self._last.judged(before.disk)
        now = replace(before, disk=disk, disk_fails=bool(self._not_taken) and not self._loop.no_room)
        if now == before:
            return
        station.change_facts(now)
        self._greet_again()
        if disk is DiskRoom.FINE:
            log.info("disk_has_room", folder=str(self._folder), free_bytes=self._last.free_bytes)
        else:
            log.warning(f"disk_{self._word()}", free_bytes=self._last.free_bytes, message=self.trouble())

    def trouble(self) -> str:
        """In words for the owner, with what to do; empty while there is room."""
        disk, last = self._loop.station.facts.disk, self._last
        if disk is DiskRoom.FINE or last is None:
            return ""
        if self._loop.station.facts.disk_fails:
            return (
                f"the disk of {self._folder} fails ({self._not_taken}): what guests write may fail as well, "
                "and they may not be saved; no new guests come. Next: look at the disk (sudo dmesg shows "
                "what it says, findmnt whether it can be written to), or gpunion reclaim"
            )
        full = disk is DiskRoom.FULL
        follows = (
            "what guests write fails, and they cannot be saved" if full else "guests' work may fail soon"
        )
        files = "" if last.files is None or last.files >= SHORT_FILES else f", room for {last.files} files"
        state = "is full" if full else "has little room left"
        return (
            f"the disk of {self._folder} {state} ({last.free_bytes / 1e6:.0f} MB{files}): {follows}; "
            f"no new guests come. Next: make room (du -xsh {self._folder}/* shows what of it is ours), "
            "or gpunion reclaim"
        )

    def shown(self) -> dict[str, Any]:
        return {
            "room": self._word(),
            "free_bytes": None if self._last is None else self._last.free_bytes,
            "trouble": self.trouble(),
        }

    def _word(self) -> str:
        facts = self._loop.station.facts
        return "failing" if facts.disk_fails else facts.disk.value
