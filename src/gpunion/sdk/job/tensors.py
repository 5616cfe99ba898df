"""A tree of tensors and plain values in two files: the bytes of the tensors, and the rest.

Every tensor begins at a multiple of a page and keeps its place from save to save, so that what did not change
is the same bytes at the same place: the vault stores and sends only the blocks that differ. Writing happens
outside Python's global lock, so a training loop beside it goes on.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE_BYTES = 4096
# Written at once: large enough for any disk, small enough that a loop's own reads get their turn.
PIECE_BYTES = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class Place:
    """Stands for a tensor in the tree: where its bytes are."""

    offset: int
    size_bytes: int
    dtype: str
    shape: tuple[int, ...]


def replaced(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The same tree with every tensor changed; dictionaries, lists and tuples are walked."""
    if hasattr(tree, "data_ptr") and hasattr(tree, "element_size"):
        return change(tree)
    if isinstance(tree, dict):
        return {key: replaced(value, change) for key, value in tree.items()}
    if isinstance(tree, list):
        return [replaced(value, change) for value in tree]
    if isinstance(tree, tuple) and not hasattr(tree, "_fields"):
        return tuple(replaced(value, change) for value in tree)
    return tree


def write(directory: Path, name: str, tree: Any, torch: Any) -> None:
    """`tree` is in host memory and nobody changes it meanwhile."""
    with open(directory / f"{name}.tensors", "wb", buffering=0) as file:
        offset = 0

        def put(tensor: Any) -> Place:
            nonlocal offset
            whole = tensor.contiguous()
            size_bytes = int(whole.numel() * whole.element_size())
            file.seek(offset)
            _pour(file, _memory(whole, size_bytes))
            place = Place(offset, size_bytes, str(whole.dtype).removeprefix("torch."), tuple(whole.shape))
            offset += -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
            return place

        rest = replaced(tree, put)
    (directory / f"{name}.state").write_bytes(pickle.dumps(rest))


def read(directory: Path, name: str, torch: Any) -> Any:
    """What was written, in host memory. The files are the program's own: pickle is as safe as the program."""
    rest = pickle.loads((directory / f"{name}.state").read_bytes())
    with open(directory / f"{name}.tensors", "rb", buffering=0) as file:

        def get(place: Place) -> Any:
            tensor = torch.empty(place.shape, dtype=getattr(torch, place.dtype))
            file.seek(place.offset)
            view = _memory(tensor, place.size_bytes)
            done = 0
            while done < place.size_bytes:
                got = file.readinto(view[done : done + PIECE_BYTES])
                if not got:
                    raise EOFError(f"{name}.tensors is shorter than it was written")
                done += got
            return tensor

        return _placed(rest, get)


def _placed(tree: Any, get: Callable[[Place], Any]) -> Any:
    if isinstance(tree, Place):
        return get(tree)
    if isinstance(tree, dict):
        return {key: _placed(value, get) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_placed(value, get) for value in tree]
    if isinstance(tree, tuple) and not hasattr(tree, "_fields"):
        return tuple(_placed(value, get) for value in tree)
    return tree


def _memory(tensor: Any, size_bytes: int) -> memoryview:
    if size_bytes == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_char * size_bytes).from_address(tensor.data_ptr())).cast("B")


def _pour(file: Any, view: memoryview) -> None:
    done = 0
    while done < len(view):
        done += file.write(view[done : done + PIECE_BYTES])
