"""What is written in C of packing and unpacking, where it was built (`build`).

What is stored can be read without it: each function that unpacks has one of numpy's beside it that gives the
same bytes, more slowly. Nobody packs into a form that only this unpacks fast where it is missing. All let
other threads work meanwhile. Arguments are contiguous arrays of bytes, or of numbers of the width that a
function is named for, and as long as each other where they belong together.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpunion.adapters.files.native.build import LIBRARY, source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

SWITCH = "GPUNION_NATIVE"  # 0: as if it had not been built
SPARE_BYTES = 64  # as in planes.c: behind the others of a plane, there to be read and of no meaning
# Bytes of a number, and how many of them are planes.
JOINED = ((4, 2), (2, 2))


class Plane(ctypes.Structure):
    """As in planes.c. Whoever makes one keeps what it points to."""

    _fields_ = (
        ("bytes", ctypes.c_void_p),
        ("others", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("common", ctypes.c_uint8 * 16),
        ("kind", ctypes.c_uint32),
        ("bits", ctypes.c_uint32),
    )


def plane(
    kind: int, content: Array, *, common: bytes = b"", others: Array | None = None, bits: int = 0
) -> Plane:
    """`others` with `SPARE_BYTES` behind them where `bits` says that these are codes."""
    found = Plane(
        bytes=_address(content),
        others=None if others is None else _address(others),
        size=content.size,
        count=0 if others is None else others.size,
        kind=kind,
        bits=bits,
    )
    ctypes.memmove(found.common, common, len(common))
    return found


_POINTER, _SIZE, _NUMBER, _BITS = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint16, ctypes.c_uint
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "unpack_plane": (ctypes.c_int, [_POINTER, _POINTER, _SIZE]),
    "join": (ctypes.c_int, [_POINTER, _SIZE, _POINTER, _POINTER, _SIZE]),
    "pack_codes": (ctypes.c_size_t, [_POINTER, _SIZE, _POINTER, _BITS, _POINTER, _POINTER]),
    "unpack_narrow": (ctypes.c_int, [_POINTER, _POINTER, _SIZE, _POINTER, _NUMBER, _POINTER, _SIZE]),
    "write_at": (ctypes.c_int, [ctypes.c_int, _POINTER, _SIZE, ctypes.c_int64, _SIZE]),
    "pack_narrow": (ctypes.c_ssize_t, [_POINTER, _SIZE, _POINTER, _NUMBER, _POINTER, _POINTER]),
}


class Native:
    def __init__(self, path: Path) -> None:
        """OSError or AttributeError: it does not fit this machine, or another state of the source."""
        library = ctypes.CDLL(str(path))
        library.gpunion_source.restype = ctypes.c_uint32
        if library.gpunion_source() != source():
            raise OSError(f"{path} was built from another state of its source")
        # Whether this processor unpacks codes faster than a compressor's work.
        self.is_fast = bool(library.gpunion_is_fast())
        self._calls = {}
        for name, (answer, arguments) in _FUNCTIONS.items():
            call = self._calls[name] = getattr(library, f"gpunion_{name}")
            call.restype, call.argtypes = answer, arguments

    def unpack_plane(self, packed: Plane, out: Array) -> bool:
        """False: it is not what it says."""
        return not self._calls["unpack_plane"](ctypes.byref(packed), _address(out), out.size)

    def join(self, planes: Sequence[Plane], low: Array | None, out: Array) -> bool:
        """As `planes.join`, of the `JOINED`: the highest plane first, behind them those of an earlier state.
        False: one of them is not what it says."""
        row = (Plane * len(planes))(*planes)
        low_at = None if low is None else _address(low)
        return not self._calls["join"](row, len(planes), low_at, _address(out), out.size)

    def pack_codes(self, content: Array, common: bytes, bits: int, codes: Array, others: Array) -> int:
        """How many others there are. `common` has 16 bytes, all different as far as they count. `others` has
        room for as many as there are bytes; `codes` for eight bytes more than they take."""
        call = self._calls["pack_codes"]
        addresses = _address(codes), _address(others)
        return int(call(_address(content), content.size, common, bits, *addresses))

    def unpack_narrow(self, which: Array, packed: Array, widths: Array, least: int, out: Array) -> bool:
        """False: there are fewer bits than that."""
        call = self._calls["unpack_narrow"]
        return not call(
            _address(which), _address(packed), packed.size, _address(widths), least, _address(out), out.size
        )

    def pack_narrow(self, numbers: Array, widths: Array, least: int, which: Array, packed: Array) -> int:
        """Bytes of `packed` that were used, which has room for fours of all the numbers and
        `narrow.SPARE_BYTES`."""
        call = self._calls["pack_narrow"]
        addresses = _address(which), _address(packed)
        return int(call(_address(numbers), numbers.size, _address(widths), least, *addresses))

    def write_at(self, descriptor: int, data: bytes | memoryview, offset: int, at_once: int) -> None:
        import numpy

        found = numpy.frombuffer(data, "u1")
        error = self._calls["write_at"](descriptor, _address(found), found.size, offset, at_once)
        if error:
            raise OSError(error, os.strerror(error))


def native() -> Native | None:
    """None: it was not built here, or not for this."""
    return _instead[-1] if _instead else _loaded()


def why_not() -> str:
    """What keeps it from being used here; empty where it is used."""
    if native() is not None:
        return ""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 switches it off"
    if not LIBRARY.exists():
        return "none was built for this kind of machine"
    return "what was built does not fit this machine, or this version"


def packs() -> bool:
    """Whether to pack into the forms that native code unpacks best."""
    library = native()
    return library is not None and library.is_fast


@contextmanager
def with_native(library: Native | None) -> Iterator[None]:
    """That one instead, or none, for all threads: to test and to measure it."""
    _instead.append(library)
    try:
        yield
    finally:
        _instead.pop()


_instead: list[Native | None] = []


@cache
def _loaded() -> Native | None:
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        return Native(LIBRARY)
    except (OSError, AttributeError):
        return None


def _address(array: Array) -> int:
    return int(array.ctypes.data)
