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

from gpunion.domain.frames import PROTOCOL_VERSION, AgentFrame, CoordinatorFrame
from gpunion.wire import codec
from gpunion.wire.codec import FRAME_LIMIT_BYTES, Malformed

# WebSocket close codes; 4000 and up are ours to give, named after the HTTP status they resemble.
CLOSE_MALFORMED = 1008
CLOSE_TOO_BIG = 1009
CLOSE_RESTARTING = 1012
CLOSE_WRONG_NODE = 4403
CLOSE_NO_HELLO = 4408
CLOSE_REPLACED = 4409
CLOSE_VERSION = 4426

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


def pack(frame: AgentFrame | CoordinatorFrame) -> bytes:
    envelope = {
        "v": PROTOCOL_VERSION,
        "seq": getattr(frame, "seq", 0),
        "ack": frame.ack,
        "epoch": getattr(frame, "term", 0),
        "body": codec.to_plain(frame),
    }
    try:
        return msgspec.json.encode(envelope)
    except UnicodeEncodeError:
        # What guests say, and what they call their files, may be no text at all. A report that cannot be sent
        # would keep its node from ever saying anything again.
        return msgspec.json.encode(_as_text(envelope))


def _as_text(plain: Any) -> Any:
    match plain:
        case str():
            return plain.encode(errors="replace").decode()
        case dict():
            return {_as_text(key): _as_text(value) for key, value in plain.items()}
        case list() | tuple():
            return [_as_text(value) for value in plain]
        case _:
            return plain


def unpack(data: bytes | str) -> AgentFrame | CoordinatorFrame:
    """Malformed (or its kinds TooBig and WrongVersion) for anything but a frame of this version."""
    frame = _open(data)
    if not isinstance(frame, AgentFrame | CoordinatorFrame):
        raise Malformed(f"{type(frame).__name__} is not a frame")
    return frame


def unpack_from_agent(data: bytes | str) -> AgentFrame:
    frame = _open(data)
    if not isinstance(frame, AgentFrame):
        raise Malformed(f"{type(frame).__name__} is not a frame an agent sends: {_names(AgentFrame)}")
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
        version = msgspec.json.decode(data, type=_Version).v
        if version != PROTOCOL_VERSION:
            raise WrongVersion(f"version {version} is not spoken here; use version {PROTOCOL_VERSION}")
        envelope = msgspec.json.decode(data, type=_Envelope)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"not an envelope: {error}") from error
    try:
        frame = codec.from_plain(envelope.body)
    except RecursionError as error:
        raise Malformed("nested too deeply") from error
    outside = (envelope.seq, envelope.ack, envelope.epoch)
    if outside != (getattr(frame, "seq", 0), getattr(frame, "ack", None), getattr(frame, "term", 0)):
        raise Malformed("the envelope's seq, ack and epoch are not those of its body")
    return frame


def _names(union: Any) -> str:
    return ", ".join(member.__name__ for member in get_args(union))
