"""An agent's way to the coordinator: one connection it opens itself, and a few requests beside it.

Nothing here is needed for the owner's word to count. Every call may fail at any time with `LinkFault`; what
was sent before a fault may or may not have arrived.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from gpunion.domain.protocol.frames import CoordinatorFrame, FromAgent
from gpunion.vault.locations import Place


class LinkFault(Exception):
    """The coordinator could not be reached or would not answer.

    Temporary: trying again later may work, but not before `wait_s` seconds. Permanent: a person
    has to change something first.
    """

    def __init__(self, message: str, *, temporary: bool, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.temporary = temporary
        self.wait_s = wait_s


class LinkSession(Protocol):
    """One open connection."""

    async def send(self, frame: FromAgent) -> None: ...

    def frames(self) -> AsyncIterator[CoordinatorFrame]:
        """What arrives, until the connection ends (LinkFault, or simply the end)."""
        ...


class CoordinatorLink(Protocol):
    def connect(self) -> AbstractAsyncContextManager[LinkSession]: ...

    async def fetch_tree(self, digest: str) -> bytes:
        """The list of a job's directory, verified. Permanent fault: unknown, or not what it is called."""
        ...

    def fetch_blocks(self, names: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        """One batch of blocks, each verified, as they arrive; those that are not there are left out."""
        ...

    async def fetch_places(self) -> tuple[Place, ...]:
        """Where checkpoints of this campus can be kept."""
        ...

    async def push_log(self, run_id: str, offset: int, data: bytes, *, end: bool = False) -> int:
        """Append to a run's log at `offset`; returns how far the coordinator has it. Repeatable. `end`: with
        this all is there, if that is what comes back."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """What a coordinator gives a new node."""

    node_id: str
    credential: str
    vault: str | None = None  # the campus's usual place for checkpoints, where it has one
    vault_mark: str = ""  # what is written there; empty where the coordinator cannot reach the place itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What a machine says of itself when it asks to join."""

    join_token: str
    name: str
    lab: str


class Registrar(Protocol):
    async def enrol(self, application: Application) -> Enrolment:
        """Trade a one-time token for a name and a credential. A used token is a permanent LinkFault."""
        ...

    async def farewell(self, credential: str) -> None:
        """Say that the node with this credential has left. Again, or unknown there: as good."""
        ...
