"""How many wait for which session: a bound for one, and one for all."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from gpunion.domain.ids import JobId
from gpunion.tunnel.targets import Place

# Of one session: a page has about ten.
HELD_OF_ONE_MAX = 64
HELD_MAX = 1024


class TooManyWait(Exception):
    """In words for the one who is not to wait."""


class Waiting:
    def __init__(self) -> None:
        self._of: Counter[JobId] = Counter()
        self.looking: dict[tuple[JobId, Place], object] = {}  # which of them asks, for all of them

    @property
    def all(self) -> int:
        return self._of.total()

    @contextlib.contextmanager
    def one(self, job_id: JobId) -> Iterator[None]:
        if self._of[job_id] >= HELD_OF_ONE_MAX or self.all >= HELD_MAX:
            raise TooManyWait(f"{self._of[job_id]} requests wait for this session already")
        self._of[job_id] += 1
        try:
            yield
        finally:
            self._of[job_id] -= 1
            if not self._of[job_id]:
                del self._of[job_id]
