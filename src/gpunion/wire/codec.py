"""Domain values to bytes and back, for frames and for the store.

Every value is a tagged object, `{"type": "StartRun", ...}`; the tag is looked up in a closed list, and
msgspec checks every field against the dataclass, so nothing but a known value with known types comes out.
Unknown fields are ignored (a newer peer may say more), unknown tags are refused. Every number, text and list
lies within its range (`ranges`), on the way out as on the way in: what cannot be read again is not written.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from types import UnionType
from typing import Any, get_args, get_type_hints

import msgspec

from gpunion.domain.protocol.commit import NumberedReport
from gpunion.domain.protocol.decision import AgentRecord, Record
from gpunion.domain.protocol.frames import CoordinatorFrame, FromAgent
from gpunion.domain.protocol.orders import Order
from gpunion.domain.protocol.reports import Report
from gpunion.domain.reasons.reason import Reason
from gpunion.limits import OutOfRange
from gpunion.wire.bounds import CHECK, Walkers

# A frame carries one order or report; a job's command and environment are bounded far below this.
FRAME_LIMIT_BYTES = 1024 * 1024


class Malformed(ValueError):
    """Bytes that are not one of our values. The message says what is wrong, for the peer and the log."""


def _members(*unions: Any) -> dict[str, type]:
    found: dict[str, type] = {}
    for union in unions:
        for member in get_args(union) if isinstance(union, UnionType) else (union,):
            found[member.__name__] = member
    return found


_TYPES = _members(
    Record,
    AgentRecord,
    FromAgent,
    CoordinatorFrame,
    Order,
    Report,
    Reason,
    NumberedReport,
)
# Fields that hold a union cannot be checked by the dataclass alone; they are tagged values themselves.
_NESTED = {"order", "report"}


def crossing() -> tuple[type, ...]:
    """Every type that stands by itself in a frame or in a store."""
    return tuple(_TYPES.values())


def to_plain(value: Any, way: Walkers = CHECK) -> dict[str, Any]:
    """Malformed where `from_plain` would say so."""
    name = type(value).__name__
    if name not in _TYPES:
        raise TypeError(f"{name} does not cross boundaries")
    return _tagged(_held(value, way))


def from_plain(plain: Any, way: Walkers = CHECK) -> Any:
    return _held(_converted(plain), way)


def encode(value: Any) -> bytes:
    """Malformed where `decode` would say so."""
    try:
        data = msgspec.json.encode(to_plain(value))
    except UnicodeEncodeError as error:
        raise Malformed(f"{type(value).__name__}: not text: {error}") from error
    _check_length(data)
    return data


def decode(data: bytes | str) -> Any:
    _check_length(data)
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from error
    return from_plain(plain)


def _check_length(data: bytes | str) -> None:
    if len(data) > FRAME_LIMIT_BYTES:
        raise Malformed(f"{len(data)} bytes are more than the {FRAME_LIMIT_BYTES} a frame may have")


def _held(value: Any, way: Walkers) -> Any:
    try:
        return way[type(value)](value)
    except OutOfRange as error:
        raise Malformed(str(error)) from error


def _tagged(value: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    for field in _NESTED & plain.keys():
        plain[field] = _tagged(getattr(value, field))
    return {"type": type(value).__name__, **plain}


def _converted(plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise Malformed("expected an object with a type")
    kind = _TYPES.get(str(plain.get("type")))
    if kind is None:
        raise Malformed(f"unknown type {str(plain.get('type'))[:64]!r}")
    nested = {name: _converted(plain[name]) for name in _NESTED if name in plain}
    fields = {name: value for name, value in plain.items() if name not in nested} if nested else plain
    try:
        return _convert(kind, fields, nested)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise Malformed(f"{kind.__name__}: {error}") from error


def _convert(kind: type, fields: dict[str, Any], nested: dict[str, Any]) -> Any:
    if not nested:
        return msgspec.convert(fields, type=kind)
    shell = _shell_of(kind)
    checked = msgspec.convert(fields, type=shell)
    return kind(**{name: getattr(checked, name) for name in shell.__struct_fields__}, **nested)


@cache
def _shell_of(kind: type) -> Any:
    """The dataclass without its tagged fields, as a type msgspec can check."""
    hints = get_type_hints(kind)
    rows: list[Any] = []
    for field in dataclasses.fields(kind):
        if field.name not in _NESTED:
            default = () if field.default is dataclasses.MISSING else (field.default,)
            rows.append((field.name, hints[field.name], *default))
    return msgspec.defstruct(f"{kind.__name__}Shell", rows)
