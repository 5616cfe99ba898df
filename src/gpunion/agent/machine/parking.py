"""Parking a guest on this machine: is there memory for it, move it there, make it stand still; and back.

One guest at a time: two that are moved at once would both count on the same free memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from gpunion.agent.tasks import in_own_thread
from gpunion.domain.resources import GIB
from gpunion.ports.gpus import Gpus, Look
from gpunion.ports.parking import CannotFreeze, CannotMove, Freezer, GpuMemory, ParkNote

# What the machine's owner keeps free for themselves, whatever the terms allow.
RESERVE_BYTES, RESERVE_SHARE = 2 * GIB, 0.05
# Host memory is taken for what is on the GPU and for what the driver needs beside it.
ALLOWANCE, ALLOWANCE_BYTES = 1.1, GIB
# Bringing memory back has nobody waiting at a deadline; a driver that takes longer hangs.
UNPARK_LIMIT_S = 120.0
# For a program that brings its memory back itself: some tens of gigabytes.
COME_BACK_S = 30.0
# It may find the GPU full, and waits for room so long; then its own trouble is told.
LATE_S = 660.0


class NotParked(Exception):
    """Why not, in words. The guest goes on as before."""


class NotUnparked(Exception):
    """Why a parked guest cannot go on, in words."""


class Program(Protocol):
    """The guest's own program, which may do most of it faster than anybody could from outside."""

    async def step_aside(self, limit_s: float) -> None:
        """It has given up its GPU, or does not do such things. Within the time, and without fault."""
        ...

    async def may_come_back(self) -> None:
        """It may have its GPU again, and takes it by itself."""
        ...

    async def is_back(self, wait_s: float) -> bool:
        """Waits for that. False: what was on its GPU is still in host memory."""
        ...


@dataclass(slots=True)
class GuestParker:
    freezer: Freezer
    memory: GpuMemory
    gpus: Gpus
    allowed_bytes: Callable[[], int | None]  # by the terms, of all parked guests together; None: what is free
    free_bytes: Callable[[], tuple[int, int]] = field(default_factory=lambda: free_memory)  # free, and all
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _late: set[asyncio.Task[None]] = field(default_factory=set)

    async def park(
        self,
        run_id: str,
        gpu_indices: tuple[int, ...],
        beside: Iterable[str],
        limit_s: float,
        program: Program,
    ) -> ParkNote:
        """`beside`: the other guests of this machine. NotParked says why; the guest goes on then."""
        began_s = time.monotonic()
        async with self._turn:
            note = await asyncio.to_thread(self.freezer.note, run_id)
            if note is not None and note.frozen:
                return note  # an agent before us did it
            note = await self._allowed(run_id, note, gpu_indices, tuple(beside))
            try:
                return await self._park(run_id, note, began_s, limit_s, program)
            except BaseException as trouble:
                await self._let_go(run_id, note, program)
                if isinstance(trouble, CannotMove | CannotFreeze):
                    raise NotParked(str(trouble)) from trouble
                raise

    async def unpark(self, run_id: str, program: Program) -> float:
        """Returns the seconds it took. NotUnparked says why it cannot go on."""
        began_s = time.monotonic()
        note = await asyncio.to_thread(self.freezer.note, run_id)
        await in_own_thread(lambda: self.freezer.thaw(run_id))
        if note is not None and note.pids:
            try:
                await in_own_thread(lambda: self.memory.to_gpu(note.pids, UNPARK_LIMIT_S))
            except CannotMove as trouble:
                raise NotUnparked(str(trouble)) from trouble
        await program.may_come_back()
        await self._forget(run_id, program, COME_BACK_S)
        return time.monotonic() - began_s

    async def came_back(self, run_id: str, program: Program) -> None:
        """Brought back from a dump, its GPU memory with it. Nobody waits for what its program does itself."""
        await self._forget(run_id, program, 0.0)

    async def give_up(self, run_id: str, program: Program) -> None:
        """What an agent before us had begun is undone, if there is anything."""
        note = await asyncio.to_thread(self.freezer.note, run_id)
        if note is not None:
            await self._let_go(run_id, note, program)

    async def _park(
        self, run_id: str, note: ParkNote, began_s: float, limit_s: float, program: Program
    ) -> ParkNote:
        def left_s() -> float:
            return limit_s - (time.monotonic() - began_s)

        if note.pids:
            await program.step_aside(left_s())
            await in_own_thread(lambda: self.memory.to_host(note.pids, left_s()))
        await in_own_thread(lambda: self.freezer.freeze(run_id))
        done = replace(note, frozen=True, took_s=time.monotonic() - began_s)
        await asyncio.to_thread(self.freezer.write_note, run_id, done)
        return done

    async def _let_go(self, run_id: str, note: ParkNote, program: Program) -> None:
        """Everything as it was, from wherever it is. Nobody is waited for: what is left of the notice is
        needed to save it."""
        await in_own_thread(lambda: self.freezer.thaw(run_id))
        await program.may_come_back()
        if note.pids:
            try:
                await in_own_thread(lambda: self.memory.to_gpu(note.pids, UNPARK_LIMIT_S))
            except CannotMove:
                return  # its limits end it; the note stays for whoever looks
        await self._forget(run_id, program, 0.0)

    async def _allowed(
        self, run_id: str, note: ParkNote | None, gpu_indices: tuple[int, ...], beside: tuple[str, ...]
    ) -> ParkNote:
        """What will be moved, once nothing speaks against it and there is memory for it."""
        devices = [self.gpus.device(index) for index in gpu_indices]
        why_not = await asyncio.to_thread(self.memory.why_not, [d.uuid for d in devices if d is not None])
        if why_not:
            raise NotParked(why_not)
        if note is None:
            note = await self._plan(run_id, gpu_indices)
        await asyncio.to_thread(self._make_room, run_id, note, beside)
        return note

    async def _plan(self, run_id: str, gpu_indices: tuple[int, ...]) -> ParkNote:
        pids = await asyncio.to_thread(self.freezer.processes, run_id)
        computing = await asyncio.to_thread(self.memory.computing, pids)
        look = await self.gpus.look()
        moved_bytes = on_gpus(look, gpu_indices, computing)
        if not computing:
            return ParkNote(pids=(), moved_bytes=moved_bytes or 0)
        if moved_bytes is None or look.trouble:  # the owner's memory is not filled on a guess
            why = look.trouble or "the driver does not say"
            raise NotParked(f"how much it has on its GPUs cannot be seen: {why}")
        return ParkNote(pids=computing, moved_bytes=moved_bytes)

    def _make_room(self, run_id: str, note: ParkNote, beside: tuple[str, ...]) -> None:
        others = (self.freezer.note(other) for other in beside if other != run_id)
        taken_bytes = sum(other.moved_bytes for other in others if other is not None)
        free_bytes, all_bytes = self.free_bytes()
        room_bytes = free_bytes - max(RESERVE_BYTES, int(RESERVE_SHARE * all_bytes))
        allowed_bytes = self.allowed_bytes()
        if allowed_bytes is not None:
            room_bytes = min(room_bytes, allowed_bytes - taken_bytes)
        if note.moved_bytes > room_bytes:
            raise NotParked(
                f"it has {note.moved_bytes / GIB:.1f} GiB on its GPUs, and "
                f"{max(0, room_bytes) / GIB:.1f} GiB of memory may be used for that"
            )
        self.freezer.stretch(run_id, int(ALLOWANCE * note.moved_bytes) + ALLOWANCE_BYTES)
        self.freezer.write_note(run_id, note)  # before anything is moved: it has to be found again

    async def _forget(self, run_id: str, program: Program, wait_s: float) -> None:
        """It has no more memory than it was granted, as soon as it does not need more."""
        await asyncio.to_thread(self.freezer.write_note, run_id, None)
        if await program.is_back(wait_s):
            await asyncio.to_thread(self.freezer.stretch, run_id, 0)
            return
        late = asyncio.get_running_loop().create_task(self._lower_when_back(run_id, program))
        self._late.add(late)
        late.add_done_callback(self._late.discard)

    async def _lower_when_back(self, run_id: str, program: Program) -> None:
        await program.is_back(LATE_S)
        if await asyncio.to_thread(self.freezer.note, run_id) is None:  # else it was parked once more
            await asyncio.to_thread(self.freezer.stretch, run_id, 0)


def on_gpus(look: Look, gpu_indices: Iterable[int], pids: Iterable[int]) -> int | None:
    """What these processes have there: by the driver's list, or all that is in use where it names nobody.
    None: it says neither."""
    total, mine = 0, set(pids)
    for index in gpu_indices:
        sight = look.of(index)
        if sight is None:
            return None
        listed = [process for process in sight.processes or () if process.pid in mine]
        if listed and all(process.memory_bytes is not None for process in listed):
            total += sum(process.memory_bytes or 0 for process in listed)
        elif sight.memory_used_bytes is None:
            return None
        else:
            total += sight.memory_used_bytes
    return total


def free_memory(path: str = "/proc/meminfo") -> tuple[int, int]:
    """What could be taken without anybody noticing, and all there is."""
    with open(path, encoding="ascii") as file:
        rows = dict(line.split(":", 1) for line in file)
    return tuple(int(rows[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))  # type: ignore[return-value]
