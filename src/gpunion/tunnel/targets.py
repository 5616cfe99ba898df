"""What in a guest a stream leads to, as it is asked for and as it crosses the tunnel."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from gpunion.limits import ID_PATTERN

TARGET_MAX_BYTES = 1024
PORT_MAX = 65_535
# No window has more; the kernel keeps two bytes of each.
ROWS_MAX = COLUMNS_MAX = 5000

_PORT = re.compile(r"port:([0-9]{1,5})", re.ASCII)
_TERMINAL = re.compile(r"terminal:([0-9]{1,4})x([0-9]{1,4})", re.ASCII)


class BadTarget(ValueError):
    """It leads nowhere. The message says what may be asked for."""


class Socket(StrEnum):
    """Sockets that a guest's program makes in its folder."""

    LAB = "lab"
    SSH = "ssh"
    FILES = "files"

    @property
    def file(self) -> str:
        return f"{self.value}.sock"


@dataclass(frozen=True, slots=True)
class Port:
    """On the loopback of the guest's own network."""

    number: int


@dataclass(frozen=True, slots=True)
class Terminal:
    """A shell of the guest's user."""

    rows: int
    columns: int


Place = Socket | Port | Terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    run_id: str
    place: Place

    @property
    def enters(self) -> bool:
        """Whether a process has to go into the guest for it."""
        return not isinstance(self.place, Socket)


def parse_place(text: str) -> Place:
    if text in (socket.value for socket in Socket):
        return Socket(text)
    port = _PORT.fullmatch(text)
    if port is not None and 0 < int(port[1]) <= PORT_MAX:
        return Port(int(port[1]))
    terminal = _TERMINAL.fullmatch(text)
    if terminal is not None:
        rows, columns = int(terminal[1]), int(terminal[2])
        if 0 < rows <= ROWS_MAX and 0 < columns <= COLUMNS_MAX:
            return Terminal(rows, columns)
    raise BadTarget(f"{text[:40]!r} is none of lab, ssh, files, port:1 to port:65535, terminal:ROWSxCOLUMNS")


def shown_place(place: Place) -> str:
    match place:
        case Socket():
            return place.value
        case Port():
            return f"port:{place.number}"
        case Terminal():
            return f"terminal:{place.rows}x{place.columns}"


def pack_target(target: Target) -> bytes:
    return json.dumps({"run": target.run_id, "to": shown_place(target.place)}).encode()


def unpack_target(data: bytes) -> Target:
    if len(data) > TARGET_MAX_BYTES:
        raise BadTarget(f"{len(data)} bytes are more than the {TARGET_MAX_BYTES} a target may have")
    try:
        said = json.loads(data)
        run_id, to = str(said["run"]), str(said["to"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadTarget(f"this names no target: {type(error).__name__}") from error
    if not ID_PATTERN.fullmatch(run_id):
        raise BadTarget(f"{run_id[:64]!r} names no run")
    return Target(run_id=run_id, place=parse_place(to))
