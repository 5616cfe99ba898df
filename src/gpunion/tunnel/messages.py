"""What crosses a tunnel: binary messages, each of one stream.

Four bytes say which stream, one what kind of message, the rest is its body. A sender may have WINDOW_BYTES
under way in each stream; what its receiver has passed on is given back as CREDIT.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from gpunion.limits import readable

_HEAD = struct.Struct(">IB")
_CREDIT = struct.Struct(">I")
HEAD_BYTES = _HEAD.size
# Of one stream. Ten milliseconds at 100 MB/s: more would only wait longer, less would wait more often.
WINDOW_BYTES = 1 << 20
# A kernel's answer has to wait for no more than one of these of somebody's download.
PIECE_BYTES = 1 << 16
MESSAGE_MAX_BYTES = HEAD_BYTES + PIECE_BYTES
WHY_MAX_CHARS = 300
STREAM_ID_MAX = 2**32 - 1


class Kind(IntEnum):
    OPEN = 1  # body: the target
    OPENED = 2
    DATA = 3
    END = 4  # nothing more comes this way; the other way stays
    RESET = 5  # body: why. Both ways are over
    CREDIT = 6  # body: how many bytes more may follow


class BadMessage(ValueError):
    """The peer does not keep to the protocol: its tunnel is closed."""


def pack(stream_id: int, kind: Kind, body: bytes = b"") -> bytes:
    return _HEAD.pack(stream_id, kind) + body


def unpack(message: bytes) -> tuple[int, Kind, bytes]:
    if not HEAD_BYTES <= len(message) <= MESSAGE_MAX_BYTES:
        raise BadMessage(f"a message has {HEAD_BYTES} to {MESSAGE_MAX_BYTES} bytes, and not {len(message)}")
    stream_id, number = _HEAD.unpack_from(message)
    try:
        return stream_id, Kind(number), message[HEAD_BYTES:]
    except ValueError:
        raise BadMessage(f"there is no kind {number} of message") from None


def pack_why(why: str) -> bytes:
    return readable(why[: 2 * WHY_MAX_CHARS])[:WHY_MAX_CHARS].encode(errors="replace")


def unpack_why(body: bytes) -> str:
    return readable(body[: 4 * WHY_MAX_CHARS].decode(errors="replace"))[:WHY_MAX_CHARS] or "no reason given"


def pack_credit(amount_bytes: int) -> bytes:
    return _CREDIT.pack(amount_bytes)


def unpack_credit(body: bytes) -> int:
    if len(body) != _CREDIT.size:
        raise BadMessage("credit is four bytes")
    return int(_CREDIT.unpack(body)[0])
