"""Some hours or minutes of one GPU in a few bytes each, squeezed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from gpunion.ports.usage_history import GpuPoint

# Seen seconds, watts, and in a byte each: utilisation, memory, degrees.
_POINT = struct.Struct("<HHBBB")
_MOST_S, _MOST_W, _NONE_W, _NONE = 0xFFFF, 0xFFFE, 0xFFFF, 0xFF
_STEPS = 250.0  # of a share
_COLDEST_C = -50.0
_FASTEST = 1  # zlib: most of a row is nothing at all, which any level sees


class Unreadable(ValueError):
    """No row that was written here."""


@dataclass(frozen=True, slots=True)
class Slot:
    seen_s: float
    utilisation: float | None
    memory_share: float | None
    temperature_c: float | None
    power_w: float | None

    @classmethod
    def of(cls, point: GpuPoint) -> Slot:
        return cls(point.seen_s, point.utilisation, point.memory_share, point.temperature_c, point.power_w)

    def point(self, at_s: int, node: str, index: int, uuid: str, model: str) -> GpuPoint:
        return GpuPoint(
            at_s=at_s,
            node=node,
            index=index,
            uuid=uuid,
            model=model,
            seen_s=self.seen_s,
            utilisation=self.utilisation,
            memory_share=self.memory_share,
            temperature_c=self.temperature_c,
            power_w=self.power_w,
        )

    def bytes(self) -> bytes:
        warm = None if self.temperature_c is None else (self.temperature_c - _COLDEST_C) / _STEPS
        watts = _NONE_W if self.power_w is None else min(_MOST_W, max(0, round(self.power_w)))
        return _POINT.pack(
            min(_MOST_S, max(1, round(self.seen_s))),
            watts,
            _share_byte(self.utilisation),
            _share_byte(self.memory_share),
            _share_byte(warm),
        )


def both(one: Slot | None, other: Slot) -> Slot:
    if one is None:
        return other
    return Slot(
        one.seen_s + other.seen_s,
        _mean(one, other),
        _most(one.memory_share, other.memory_share),
        _most(one.temperature_c, other.temperature_c),
        _most(one.power_w, other.power_w),
    )


def packed(slots: Sequence[Slot | None]) -> bytes:
    nothing = bytes(_POINT.size)
    return zlib.compress(b"".join(nothing if slot is None else slot.bytes() for slot in slots), _FASTEST)


def unpacked(row: object, slots: int) -> bytes:
    """What `slot_at` reads from, in no more room than a row has, whatever lies there. Raises Unreadable."""
    size = _POINT.size * slots
    try:
        data = zlib.decompressobj().decompress(row, size + 1)  # type: ignore[arg-type]
    except (zlib.error, TypeError) as error:
        raise Unreadable(str(error)) from error
    if len(data) != size:
        raise Unreadable("it has another length")
    return data


def slot_at(data: bytes, number: int) -> Slot | None:
    seen_s, watts, busy, memory, warm = _POINT.unpack_from(data, number * _POINT.size)
    if not seen_s:
        return None
    return Slot(
        seen_s,
        _share(busy),
        _share(memory),
        None if warm == _NONE else warm + _COLDEST_C,
        None if watts == _NONE_W else watts,
    )


def _mean(one: Slot, other: Slot) -> float | None:
    if one.utilisation is None or other.utilisation is None:
        return _most(one.utilisation, other.utilisation)
    seen_s = one.seen_s + other.seen_s
    busy_s = one.utilisation * one.seen_s + other.utilisation * other.seen_s
    return busy_s / seen_s if seen_s else one.utilisation


def _most(one: float | None, other: float | None) -> float | None:
    known = [each for each in (one, other) if each is not None]
    return max(known, default=None)


def _share_byte(share: float | None) -> int:
    return _NONE if share is None else round(min(1.0, max(0.0, share)) * _STEPS)


def _share(byte: int) -> float | None:
    # A byte between the two was never written.
    return None if byte == _NONE else min(1.0, byte / _STEPS)
