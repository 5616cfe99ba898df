"""What whoever waits for a decision is told: that it is committed, or why there will be no answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gpunion.domain.protocol.commit import Commit
from gpunion.ports.database import StoreFull


class NotHandled(Exception):
    """Handling it raised: it was set aside and changed nothing. Asking again would do the same."""


class NotAccepting(Exception):
    """The loop is ending, or its queue is full: nothing was done, ask again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    commit: Commit
    seq: int  # of the log line, 0 where there is none


class passing_failure_to:
    """Whoever waits for the answer hears that there will be none; the failure itself goes on up, but for one
    that only they need to know of."""

    def __init__(self, answer: asyncio.Future[Outcome] | asyncio.Future[None]) -> None:
        self._answer = answer

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, failure: BaseException | None, *_: object) -> bool:
        theirs = isinstance(failure, (StoreFull, NotHandled))
        if kind is not None and not self._answer.done():
            self._answer.set_exception(failure if theirs and failure is not None else NotAccepting())
        return theirs
