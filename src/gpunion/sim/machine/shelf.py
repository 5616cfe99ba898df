"""What of jobs' states lies on one machine's disk ahead of its job. Outlives its agent, is never durable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpunion.domain.ids import JobId
from gpunion.sim.vault import Sealed

# What an owner gives to it.
QUOTA_BYTES = 64 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    have_bytes: float
    written_bytes: int  # all that the job had ever written when this was the newest
    ahead_bytes: float = 0.0  # of the save after it


@dataclass(slots=True)
class Shelf:
    quota_bytes: int = QUOTA_BYTES
    fetched_bytes: float = 0.0
    found_bytes: float = 0.0
    copies: int = 0
    hits: int = 0  # restores that found something
    _copies: dict[JobId, Copy] = field(default_factory=dict)  # the latest put last

    def found(self, sealed: Sealed) -> float:
        """Bytes of it that are here. What was written since is counted as if no two saves had ever written
        the same place, so it is the least there can be."""
        copy = self._copies.get(sealed.job_id)
        if copy is None:
            return 0.0
        behind_bytes = max(0, sealed.written_bytes - copy.written_bytes)
        kept_bytes = max(0.0, min(copy.have_bytes, sealed.size_bytes) - behind_bytes)
        return min(sealed.size_bytes, kept_bytes + min(copy.ahead_bytes, behind_bytes))

    def take(self, sealed: Sealed) -> float:
        found_bytes = self.found(sealed)
        self.found_bytes += found_bytes
        self.hits += found_bytes > 0.0
        return found_bytes

    def put(self, sealed: Sealed, fetched_bytes: float, found_bytes: float) -> None:
        """All of it, or what came of it before it was broken off."""
        self.fetched_bytes += fetched_bytes
        self.copies += 1
        self._put(sealed, min(sealed.size_bytes, found_bytes + fetched_bytes))

    def _put(self, sealed: Sealed, have_bytes: float) -> None:
        self._copies.pop(sealed.job_id, None)
        self._copies[sealed.job_id] = Copy(have_bytes=have_bytes, written_bytes=sealed.written_bytes)
        while len(self._copies) > 1 and sum(c.have_bytes for c in self._copies.values()) > self.quota_bytes:
            del self._copies[next(iter(self._copies))]

    def keep(self, sealed: Sealed) -> None:
        """It was saved here: nothing had to be moved."""
        self._put(sealed, sealed.size_bytes)

    def put_ahead(self, job_id: JobId, ahead_bytes: float) -> None:
        """What came of a save that is, or was, on its way."""
        copy = self._copies.get(job_id)
        self.fetched_bytes += ahead_bytes
        if copy is not None:
            self._copies[job_id] = replace(copy, ahead_bytes=ahead_bytes)

    def wipe(self) -> None:
        self._copies.clear()

    def drop(self, job_id: JobId) -> None:
        self._copies.pop(job_id, None)
