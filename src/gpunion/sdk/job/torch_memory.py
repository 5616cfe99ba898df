"""What a PyTorch program has on its GPUs, put into host memory and back by many hands at once.

NVIDIA's driver moves the memory of a process with one thread. From inside the program several streams can
copy at the same time, each through a piece of pinned memory, into host memory that comes in huge pages.

Tensors stay the objects they are: only the memory behind them is given up and taken again, so whoever holds
one, or a view of one, sees the same numbers afterwards. Their addresses are others, though. A program in
which somebody has noted addresses (CUDA graphs) is therefore left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import queue
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# With 16 instead of 8, 10 GiB leave an H200 in 0.5 s instead of 0.7; into memory that nobody has used before,
# where the system's giving it out is most of it, in 0.6 to 1.2 s instead of 1.2 to 1.7.
HANDS_MAX = 16
PIECE_BYTES = 16 * 1024**2
LEAST_BYTES = 1024**2  # smaller things share memory with others and would free nothing
PAGE_BYTES = 4096
ADDRESS_KEEPERS = ("cupy", "jax", "numba.cuda")  # libraries to which tensors are lent without a copy
NO_GRAPH = (0, 0)  # the pool of memory that belongs to no CUDA graph


class CannotSetAside(Exception):
    """Why everything is still on the GPU, in words."""


class NoRoomYet(Exception):
    """The GPU does not have the memory that was given up. Everything is still in host memory."""


@dataclass(frozen=True, slots=True)
class Shelved:
    storage: Any
    size_bytes: int
    offset: int  # where it is in host memory


class TorchMemory:
    def __init__(self, torch: Any, kind: str = "cuda") -> None:
        self._torch = torch
        self._kind = kind
        self._shelf: list[Shelved] = []
        self._room: mmap.mmap | None = None

    def set_aside(self, wanted: Callable[[], bool] = lambda: True) -> int:
        """Between two steps of the program. Returns how many bytes it was. `wanted` is asked now and then."""
        known = next((name for name in ADDRESS_KEEPERS if name in sys.modules), None)
        if known is not None:
            raise CannotSetAside(f"it uses {known}, which may know its tensors by their addresses")
        try:
            return self._set_aside(wanted)
        except CannotSetAside:
            raise
        except Exception as trouble:  # of memory, of the driver, of an allocator that cannot be asked
            raise CannotSetAside(str(trouble) or repr(trouble)) from trouble

    def _set_aside(self, wanted: Callable[[], bool]) -> int:
        if self._belongs_to_graphs():
            raise CannotSetAside("it uses CUDA graphs, which know its tensors by their addresses")
        shelf, total_bytes = [], 0
        for storage in self._storages():
            size_bytes = int(storage.nbytes())
            shelf.append(Shelved(storage, size_bytes, total_bytes))
            total_bytes += -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
        if not shelf:
            return 0
        room = _room_for(total_bytes)
        self._carry(shelf, room, _Hand.fetch, wanted)
        if not wanted():
            raise CannotSetAside("it took too long")
        self._shelf, self._room = shelf, room
        self._let_go()
        return total_bytes

    def bring_back(self) -> None:
        if self._room is None:
            return
        try:
            for shelved in self._shelf:
                shelved.storage.resize_(shelved.size_bytes)
        except self._torch.cuda.OutOfMemoryError as trouble:
            self._let_go()
            raise NoRoomYet(str(trouble)) from trouble
        self._carry(self._shelf, self._room, _Hand.put, lambda: True)
        self._shelf, self._room = [], None

    def _let_go(self) -> None:
        for shelved in self._shelf:
            shelved.storage.resize_(0)
        self._torch.cuda.empty_cache()

    def _belongs_to_graphs(self) -> bool:
        graph = getattr(self._torch.cuda, "CUDAGraph", None)
        if graph is not None and any(issubclass(type(thing), graph) for thing in gc.get_objects()):
            return True
        segments = self._torch.cuda.memory_snapshot()
        return any(tuple(segment.get("segment_pool_id", NO_GRAPH)) != NO_GRAPH for segment in segments)

    def _storages(self) -> list[Any]:
        """Every piece of GPU memory that a tensor of this program stands on, once."""
        found: dict[int, Any] = {}
        for thing in gc.get_objects():
            # By its type: asking the object itself would wake up things that only pretend to be there.
            if not issubclass(type(thing), self._torch.Tensor):
                continue
            for storage in self._behind(thing):
                found[int(storage._cdata)] = storage
        return list(found.values())

    def _behind(self, tensor: Any) -> list[Any]:
        """Of the tensor and its gradient, as far as it can be given up. A tensor of a strange kind stands on
        others, which are found by themselves."""
        found = []
        with contextlib.suppress(Exception):
            for each in (tensor, tensor.grad if tensor.is_leaf else None):
                if each is None or each.layout is not self._torch.strided:
                    continue
                storage = each.untyped_storage()
                on_gpu = storage.device.type == self._kind
                # Of tensors that only stand for others the storage has a size, but no memory.
                there = on_gpu and storage.resizable() and storage.data_ptr() != 0
                if there and storage.nbytes() >= LEAST_BYTES:
                    found.append(storage)
        return found

    def _carry(self, shelf: list[Shelved], room: mmap.mmap, move: Move, wanted: Callable[[], bool]) -> None:
        for device in {shelved.storage.device for shelved in shelf}:
            there = [shelved for shelved in shelf if shelved.storage.device == device]
            self._torch.cuda.synchronize(device)
            self._carry_on(device, self._pieces(device, there, _address_of(room)), move, wanted)

    def _pieces(self, device: Any, shelf: list[Shelved], address: int) -> Pieces:
        pieces: Pieces = queue.SimpleQueue()
        with self._torch.inference_mode(False):  # what is made in that mode cannot be written outside of it
            for shelved in shelf:
                whole = self._torch.empty(0, dtype=self._torch.uint8, device=device).set_(shelved.storage)
                for start in range(0, shelved.size_bytes, PIECE_BYTES):
                    piece = whole[start : start + PIECE_BYTES]
                    pieces.put((piece, address + shelved.offset + start, int(piece.numel())))
        return pieces

    def _carry_on(self, device: Any, pieces: Pieces, move: Move, wanted: Callable[[], bool]) -> None:

        def work() -> None:
            hand = _Hand(self._torch, device)
            while wanted():
                try:
                    piece, at, size_bytes = pieces.get_nowait()
                except queue.Empty:
                    return
                move(hand, piece, at, size_bytes)

        from concurrent.futures import ThreadPoolExecutor  # few programs ever need it, and it is slow to load

        hands = min(HANDS_MAX, len(os.sched_getaffinity(0)), pieces.qsize())
        with ThreadPoolExecutor(hands, thread_name_prefix="gpunion-aside") as pool:
            for done in [pool.submit(work) for _ in range(hands)]:
                done.result()


class _Hand:
    """One thread's own: a stream, and a piece of pinned memory to copy through."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._stream = torch.cuda.Stream(device)
        self._pinned = torch.empty(PIECE_BYTES, dtype=torch.uint8, device="cpu", pin_memory=True)

    def fetch(self, piece: Any, address: int, size_bytes: int) -> None:
        with self._torch.cuda.stream(self._stream):
            self._pinned[:size_bytes].copy_(piece, non_blocking=True)
        self._stream.synchronize()
        ctypes.memmove(address, self._pinned.data_ptr(), size_bytes)

    def put(self, piece: Any, address: int, size_bytes: int) -> None:
        ctypes.memmove(self._pinned.data_ptr(), address, size_bytes)
        with self._torch.cuda.stream(self._stream):
            piece.copy_(self._pinned[:size_bytes], non_blocking=True)
        self._stream.synchronize()


Pieces = queue.SimpleQueue[tuple[Any, int, int]]  # a part of a tensor, where it goes, how much it is
Move = Callable[[_Hand, Any, int, int], None]


def _room_for(size_bytes: int) -> mmap.mmap:
    room = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages is slower, not wrong
        room.madvise(mmap.MADV_HUGEPAGE)
    return room


def _address_of(room: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(room))
