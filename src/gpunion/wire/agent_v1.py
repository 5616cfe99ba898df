"""Envelopes of the one connection between an agent and the coordinator, version 1.

`{"v": 1, "seq": 7, "ack": 3, "epoch": 2, "body": {"type": "ReportFrame", ...}}`: the numbers stand outside
the body so that a relay or a log can follow a channel without knowing the frames. `epoch` is the
coordinator's term (0 in an agent's frames), `seq` is 0 for frames that are not numbered. The envelope is
strict; the version is looked at first, so that a peer of another version gets told so and not that it is
malformed.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from gpunion.domain.protocol.frames import PROTOCOL_VERSION, CoordinatorFrame, FromAgent
from gpunion.wire import codec
from gpunion.wire.bounds import HEAR, TELL
from gpunion.wire.codec import FRAME_LIMIT_BYTES, Malformed

# WebSocket close codes; 4000 and up are ours to give, named after the HTTP status they resemble.
CLOSE_MALFORMED = 1008
CLOSE_TOO_BIG = 1009
CLOSE_RESTARTING = 1012
CLOSE_WRONG_NODE = 4403
CLOSE_NO_HELLO = 4408
CLOSE_REPLACED = 4409
CLOSE_VERSION = 4426

# What one machine says at a time: its facts with all lists of its terms full, or a thousand guests' progress.
AGENT_FRAME_LIMIT_BYTES = 256 * 1024

# RFC 6455: a close frame has 125 bytes, two of them for the code.
REASON_LIMIT_BYTES = 123


class TooBig(Malformed):
    """More bytes than a frame may have."""


class WrongVersion(Malformed):
    """The peer speaks another version of the protocol. The message says which one to use."""


class _Version(msgspec.Struct):
    v: int


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    v: int
    seq: int
    ack: int
    epoch: int
    body: dict[str, Any]


def pack(frame: FromAgent | CoordinatorFrame) -> bytes:
    envelope = {
        "v": PROTOCOL_VERSION,
        "seq": getattr(frame, "seq", 0),
        "ack": getattr(frame, "ack", 0),
        "epoch": getattr(frame, "term", 0),
        # What guests say, and what they call their files, may be no text at all, and a driver may report any
        # number. A report that cannot be sent would keep its node from ever saying anything again.
        "body": codec.to_plain(frame, TELL),
    }
    return msgspec.json.encode(envelope)


def unpack(data: bytes | str) -> FromAgent | CoordinatorFrame:
    """Malformed (or its kinds TooBig and WrongVersion) for anything but a frame of this version."""
    frame = _open(data)
    if not isinstance(frame, FromAgent | CoordinatorFrame):
        raise Malformed(f"{type(frame).__name__} is not a frame")
    return frame


def unpack_from_agent(data: bytes | str) -> FromAgent:
    if len(data) > AGENT_FRAME_LIMIT_BYTES:
        raise TooBig(
            f"{len(data)} bytes are more than the {AGENT_FRAME_LIMIT_BYTES} an agent's frame may have"
        )
    frame = _open(data)
    if not isinstance(frame, FromAgent):
        raise Malformed(f"{type(frame).__name__} is not a frame an agent sends: {_names(FromAgent)}")
    return frame


def unpack_from_coordinator(data: bytes | str) -> CoordinatorFrame:
    frame = _open(data)
    if not isinstance(frame, CoordinatorFrame):
        raise Malformed(f"{type(frame).__name__} is not a coordinator's frame: {_names(CoordinatorFrame)}")
    return frame


def close_reason(text: str) -> str:
    """As much of the text as a close frame can carry."""
    return text.encode(errors="replace")[:REASON_LIMIT_BYTES].decode(errors="ignore")


def _open(data: bytes | str) -> Any:
    if len(data) > FRAME_LIMIT_BYTES:
        raise TooBig(f"{len(data)} bytes are more than the {FRAME_LIMIT_BYTES} a frame may have")
    try:
        envelope = _as_envelope(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"not an envelope: {error}") from error
    if envelope.v != PROTOCOL_VERSION:
        raise WrongVersion(_other(envelope.v))
    try:
        frame = codec.from_plain(envelope.body, HEAR)
    except RecursionError as error:
        raise Malformed("nested too deeply") from error
    outside = (envelope.seq, envelope.ack, envelope.epoch)
    if outside != (getattr(frame, "seq", 0), getattr(frame, "ack", 0), getattr(frame, "term", 0)):
        raise Malformed("the envelope's seq, ack and epoch are not those of its body")
    return frame


def _as_envelope(data: bytes | str) -> _Envelope:
    try:
        return _read_envelope(data)
    except msgspec.ValidationError:
        version = msgspec.json.decode(data, type=_Version).v
        if version != PROTOCOL_VERSION:
            raise WrongVersion(_other(version)) from None
        raise


def _other(version: int) -> str:
    return f"version {version} is not spoken here; use version {PROTOCOL_VERSION}"


_read_envelope = msgspec.json.Decoder(_Envelope).decode


def _names(union: Any) -> str:
    return ", ".join(member.__name__ for member in get_args(union))
