"""What one process has under way in a bucket: while it lives, a collector spares what it put and claimed.

A session lives from its first write until its process finishes it, or until a collector ends it because
nothing was heard of it for a day. Which of the two comes first is settled by replacing its object as it was
read: who has been ended is told so at the latest when it wants to seal, and looks for everything again. Each
sign of life has other bytes than the one before, since a server may make an etag of nothing but the bytes.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field

from gpunion.adapters.s3.layout import CLAIMS, Copy, session_key
from gpunion.adapters.s3.objects import Objects

LEASE_S = 24 * 3600.0
ALIVE, ENDED = b"alive", b"ended"

Owner = str | None
Block = tuple[Owner, str]


class SessionEnded(Exception):
    """A collector has given it up: nothing that it relied on is safe any more."""


@dataclass
class Session:
    """`pinned`: of checkpoints that a job's ledger keeps for us; they are good for that job's seal only."""

    id: str = field(default_factory=lambda: secrets.token_hex(16))
    jobs: set[str] = field(default_factory=set)
    own: dict[Block, Copy] = field(default_factory=dict)
    claimed: dict[Block, Copy] = field(default_factory=dict)
    pinned: dict[str, dict[Block, Copy]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _begun: bool = False

    def find(self, block: Block, job_id: str | None = None) -> Copy | None:
        """For one job's seal, or for any job's upload."""
        found = self.own.get(block) or self.claimed.get(block)
        if found is not None:
            return found
        pins = list(self.pinned.values()) if job_id is None else [self.pinned.get(job_id, {})]
        return next((pinned[block] for pinned in pins if block in pinned), None)

    def drop(self, block: Block, copy: Copy) -> None:
        for known in (self.own, self.claimed, *self.pinned.values()):
            if known.get(block) == copy:
                del known[block]

    def begin(self, objects: Objects) -> None:
        """Before the first write that it protects."""
        with self._lock:
            if not self._begun:
                objects.create(session_key(self.id), _sign_of_life())
                self._begun = True

    def prove(self, objects: Objects) -> None:
        """That it has lived all the time, and lives for another lease. SessionEnded."""
        self.begin(objects)
        with self._lock:
            found = objects.get(session_key(self.id))
            while found is not None and found.data.startswith(ALIVE):
                if objects.replace(session_key(self.id), _sign_of_life(), found.etag):
                    return
                found = objects.get(session_key(self.id))
        raise SessionEnded(self.id)

    def finish(self, objects: Objects) -> None:
        if self._begun:
            claims = [listed.key for listed in objects.list(f"{CLAIMS}{self.id}/")] if self.claimed else []
            objects.delete([session_key(self.id), *claims])


def _sign_of_life() -> bytes:
    return ALIVE + b" " + secrets.token_hex(8).encode()


def living(objects: Objects, now_s: float) -> set[str]:
    """Those that a collector has to respect; the others are ended for good."""
    found: set[str] = set()
    for listed in objects.list(session_key("")):
        name = listed.key.rpartition("/")[2]
        about = objects.get(listed.key)
        if about is None:
            continue
        old = now_s - about.modified_s >= LEASE_S  # of the very bytes that are replaced
        if about.data.startswith(ALIVE) and not (old and objects.replace(listed.key, ENDED, about.etag)):
            found.add(name)
        elif about.data == ENDED and old:
            objects.delete([listed.key])
    return found
