"""Where the coordinator keeps what it must not forget.

One writer at a time: `open` takes the lead with a new, higher term, and every later call names that term.
A store whose term was overtaken answers `Overtaken`; the coordinator then exits and lets the other lead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpunion.domain.commit import Commit, SavedCampus
from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.reasons import Reason


class StoreFault(Exception):
    """The store could not do it. `temporary`: the same call may work later."""

    temporary = True


class StoreTaken(StoreFault):
    """Another coordinator leads on this database and is alive."""

    temporary = False


class Overtaken(StoreFault):
    """A newer term leads. Nothing of this commit was written."""

    temporary = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDecision:
    """One line of the decision log, as the event stream and `why` show it."""

    seq: int
    at_s: float
    event: str
    subjects: tuple[str, ...]
    reasons: tuple[Reason, ...]
    effects: tuple[str, ...]


class Store(Protocol):
    async def open(self, *, holder: str, now_s: float, lead_s: float) -> int:
        """Takes the lead for `lead_s` seconds and returns the term; StoreTaken where another's lead is not over."""
        ...

    async def renew(self, *, term: int, now_s: float, lead_s: float) -> None:
        """Keeps the lead. Overtaken where it was lost."""
        ...

    async def load(self) -> SavedCampus: ...

    async def commit(self, commit: Commit, *, term: int) -> int:
        """All of it or nothing; returns the log's number. Called once per decision, never after a fault."""
        ...

    async def acknowledged(self, node_id: NodeId, up_to_seq: int) -> None:
        """Orders up to this number have arrived. May be late or lost: a repeated order is harmless."""
        ...

    async def job_for_key(self, idempotency_key: str) -> JobId | None: ...

    async def log(
        self, *, since_seq: int = 0, subject: str | None = None, limit: int = 500
    ) -> Sequence[LoggedDecision]:
        """The decision log, oldest first."""
        ...

    async def put_bundle(self, digest: str, data: bytes) -> None:
        """Keeps a job's code. Writing the same digest again is harmless."""
        ...

    async def get_bundle(self, digest: str) -> bytes | None: ...

    async def close(self, *, term: int) -> None:
        """Gives the lead back and closes. Safe to call twice."""
        ...
