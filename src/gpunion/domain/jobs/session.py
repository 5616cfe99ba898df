"""A job that somebody works in: a notebook or a shell, reached through sockets in its guest's directory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from gpunion.domain.ids import JobId, NodeId, RunId

# A label of a host name: NAME.localhost is where a browser meets it, and `gpunion-NAME` where ssh does.
NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
NAME_IN_WORDS = "small letters, digits and dashes, at most 40, no dash first or last"
SSH_KEYS_MAX = 16
# Nobody may lose more than this of what they typed; where nothing changed, such a save costs nothing.
SESSION_SAVED_EVERY_S = 180.0
IDLE_WARNING_S = 600.0  # long enough to come back from a coffee

_NAME = re.compile(NAME_PATTERN)


class SessionKind(StrEnum):
    NOTEBOOK = "notebook"
    SHELL = "shell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a job says of itself that is one."""

    kind: SessionKind
    ssh_keys: tuple[str, ...] = ()  # public ones; whoever has the other half may enter
    idle_end_s: float | None = None  # its own wish; the campus's is the longest it may have


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """What its machine has to know of it."""

    kind: SessionKind
    name: str
    token: str = field(repr=False)  # in hex; what its own server asks for. The same wherever it goes
    ssh_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEndAsked:
    job_id: JobId
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdle:
    """Nobody has worked in it for so long, as its machine says."""

    node_id: NodeId
    run_id: RunId
    idle_s: float
    warns: bool  # long enough to tell its user


SessionEvent = SessionEndAsked | SessionIdle


def is_session_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None
