"""Where the coordinator keeps what it must not forget.

One writer at a time: `open` takes the lead with a new, higher term, and every later commit names that term.
A store whose term was overtaken answers `Overtaken`; the coordinator then exits and lets the other lead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gpunion.domain.environment import CampusEnvironment
from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.image import CampusImage
from gpunion.domain.jobs.account import Account, Quota
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.profile import Reliability
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.lending import CampusMemory, Lending
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.aside import SetAside
from gpunion.domain.protocol.commit import Commit, SavedCampus
from gpunion.domain.protocol.decision import Record
from gpunion.domain.protocol.effects import CoordinatorEffect, SendOrder
from gpunion.domain.protocol.events import CoordinatorEvent, NodeReported
from gpunion.domain.protocol.reports import SignsShown
from gpunion.domain.reasons.reason import Reason

# Of one page of the log: hundreds of lines as they are, and little enough for every watcher to hold one.
LOG_PAGE_BYTES = 128 * 1024


class StoreFault(Exception):
    """The store could not do it. `temporary`: nothing was written, and the same call may work later."""

    temporary = True


class StoreFull(StoreFault):
    """The disk it lies on takes nothing more; reading goes on. The message says which, and what is free."""


class StoreBroken(StoreFault):
    """Not a database of ours, damaged, or out of reach for good. The message says what to do."""

    temporary = False


class StoreDamaged(StoreBroken):
    """It has lost something that nobody may go on without unasked. Nothing was changed.

    `readable`: whether one could go on with what is left, when told to.
    """

    def __init__(self, why: str, *, readable: bool) -> None:
        super().__init__(why)
        self.readable = readable


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


class CredentialKind(StrEnum):
    ADMIN = "admin"
    NODE = "node"
    METRICS = "metrics"  # reads the figures of the campus and nothing else


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """Who may call. Only the digest of the secret is kept."""

    kind: CredentialKind
    name: str  # a node's id, or the kind's own word
    digest: str
    created_s: float
    lab: str = ""


class Mend(StrEnum):
    """What may be done about a store that would refuse to open. One that is sound is opened as it is."""

    NOTHING = "nothing"
    ACCEPT_LOSS = "accept_loss"  # go on with what can be read
    BEGIN_ANEW = "begin_anew"  # an empty campus; what was there is put aside


class Redeemed(StrEnum):
    """What became of a join token."""

    TAKEN = "taken"
    UNKNOWN = "unknown"
    USED = "used"
    EXPIRED = "expired"


class Identities(Protocol):
    async def credentials(self) -> Sequence[Credential]: ...

    async def put_credential(self, credential: Credential) -> None:
        """Replaces what was there under the same kind and name."""
        ...

    async def put_join_token(self, digest: str, *, expires_s: float) -> None: ...

    async def redeem(self, digest: str, *, now_s: float, credential: Credential) -> Redeemed:
        """Uses the token up and keeps the credential, both or neither. Of two at once one gets it."""
        ...


class Marks(Protocol):
    async def place_marks(self) -> Mapping[str, str]:
        """By which mark each directory for checkpoints is known."""
        ...

    async def put_place_mark(self, directory: str, mark: str) -> None:
        """Replaces what was known of it."""
        ...


class Store(Identities, Marks, Protocol):
    async def open(self, *, holder: str, now_s: float, lead_s: float) -> int:
        """Takes the lead for `lead_s` seconds, returns the term; StoreTaken where another's is not over,
        StoreDamaged where too much is lost to go on."""
        ...

    async def renew(self, *, term: int, now_s: float, lead_s: float) -> None:
        """Keeps the lead. Overtaken where it was lost."""
        ...

    async def newest_s(self) -> float:
        """The latest moment any commit named; 0 for an empty store. No later commit may be earlier."""
        ...

    async def load(self) -> SavedCampus: ...

    async def commit(self, commit: Commit, *, term: int) -> int:
        """All of it or nothing, durable when this returns; the number of the log's last line.

        What `is_logged` leaves out has no line. After a temporary fault the same commit may be tried again.
        """
        ...

    async def acknowledged(self, node_id: NodeId, up_to_seq: int) -> None:
        """Orders up to this number have arrived. May be late or lost: a repeated order is harmless."""
        ...

    async def job_for_key(self, idempotency_key: str) -> JobId | None: ...

    async def log(
        self, *, since_seq: int = 0, subject: str | None = None, limit: int = 500
    ) -> Sequence[LoggedDecision]:
        """The decision log, oldest first, after `since_seq`. A page ends sooner where its lines weigh more
        than `LOG_PAGE_BYTES`; it is empty only where there is nothing more."""
        ...

    async def close(self, *, term: int) -> None:
        """Gives the lead back and closes. Safe to call twice."""
        ...


def is_logged(commit: Commit) -> bool:
    """Not when signs of an owner are shown and when not: the log is for everybody, and would tell of
    their days."""
    event = commit.event
    of_signs = isinstance(event, NodeReported) and isinstance(event.report, SignsShown)
    return not (commit.decision.empty or of_signs)


def log_line(commit: Commit, seq: int) -> LoggedDecision:
    """What the log keeps of a commit; the same for every store, so that logs can be compared."""
    decision = commit.decision
    subjects = {reason.subject for reason in decision.reasons}
    for record in decision.changes:
        subjects |= _subjects(record)
    return LoggedDecision(
        seq=seq,
        at_s=commit.at_s,
        event=event_name(commit.event),
        subjects=tuple(sorted(subjects)),
        reasons=decision.reasons,
        effects=tuple(effect_name(effect) for effect in decision.effects),
    )


def event_name(event: CoordinatorEvent) -> str:
    if isinstance(event, NodeReported):
        return f"NodeReported.{type(event.report).__name__}"
    return type(event).__name__


def effect_name(effect: CoordinatorEffect) -> str:
    if isinstance(effect, SendOrder):
        return f"SendOrder.{type(effect.order).__name__}"
    return type(effect).__name__


def _subjects(record: Record) -> set[str]:
    """A job's story has all that happened to its runs and checkpoints; a node's, what happened on it."""
    match record:
        case Job() | Node() | CampusImage() | CampusEnvironment():
            return {record.id}
        case Run():
            return {record.job_id, record.id, record.node_id}
        case Lending() | CampusMemory() | Account() | Quota() | Reliability() | SetAside():
            return set()  # a memory is no event in anybody's story
        case HeldJob():
            return {record.id, *(run.node_id for run in record.runs)}
        case _:
            return {record.job_id}


def weight_of(line: LoggedDecision) -> int:
    """About how many bytes a line takes, wherever it goes."""
    facts = sum(len(str(value)) for reason in line.reasons for _, value in reason.facts)
    return facts + 32 * len(line.reasons) + sum(map(len, line.subjects)) + sum(map(len, line.effects))
