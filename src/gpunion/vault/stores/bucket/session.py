"""What one process has under way in a bucket: while it lives, a collector spares what it put and claimed.

A session lives from its first write until its process finishes it, or until a collector ends it because
nothing was heard of it for a day. Which of the two comes first is settled by replacing its object as it was
read: who has been ended is told so at the latest when it wants to seal, and looks for everything again. Each
sign of life has other bytes than the one before, since a server may make an etag of nothing but the bytes.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from gpunion.vault.stores.bucket.layout import CLAIMS, Copy, session_key
from gpunion.vault.stores.bucket.objects import Objects

LEASE_S = 24 * 3600.0
ALIVE, ENDED = b"alive", b"ended"

Owner = str | None
Block = tuple[Owner, str]


class UploadSessionEnded(Exception):
    """A collector has given it up: nothing that it relied on is safe any more."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A job that may have an upload under way; nobody tells when a run ends without a seal."""

    upload: str  # what its ledger calls it
    begun_s: float


@dataclass(eq=False)
class UploadSession:
    """`own`, `claimed`: what no seal has named yet. `pinned`: of checkpoints that a job's ledger keeps for
    us; they are good for that job's seal only. `older`: sessions before this one with blocks that one of
    their `jobs` may still want to seal; nothing is put there any more."""

    id: str = field(default_factory=lambda: secrets.token_hex(16))
    jobs: dict[str, Begun] = field(default_factory=dict)
    own: dict[Block, Copy] = field(default_factory=dict)
    claimed: dict[Block, Copy] = field(default_factory=dict)
    pinned: dict[str, dict[Block, Copy]] = field(default_factory=dict)
    older: tuple[UploadSession, ...] = ()
    has_claims: bool = False  # in the bucket, also of what was sealed since
    sealing: int = 0  # seals that rest on it at this moment
    settled: set[Block] = field(default_factory=set)  # sealed meanwhile: let go of when nobody seals
    left: bool = False  # a job has sealed and left since then
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _begun: bool = False

    def find(self, block: Block, job_id: str | None = None) -> Copy | None:
        """For one job's seal, or for any job's upload: that one begins to rely on no older session."""
        for session in self.line() if job_id is not None else (self,):
            found = session.own.get(block) or session.claimed.get(block)
            if found is not None:
                return found
        pins = list(self.pinned.values()) if job_id is None else [self.pinned.get(job_id, {})]
        return next((pinned[block] for pinned in pins if block in pinned), None)

    def line(self) -> tuple[UploadSession, ...]:
        return (self, *self.older)

    def holds(self, block: Block) -> bool:
        return block in self.own or block in self.claimed

    def drop(self, block: Block, copy: Copy) -> None:
        held = [known for session in self.line() for known in (session.own, session.claimed)]
        for known in (*held, *self.pinned.values()):
            if known.get(block) == copy:
                del known[block]

    def leave(self, job_id: str) -> None:
        self.pinned.pop(job_id, None)
        for session in self.line():
            session.jobs.pop(job_id, None)

    def let_go(self) -> None:
        """Of what is in a ledger. Another job that wants it too claims it there."""
        for session in self.line():
            for block in self.settled:
                session.own.pop(block, None)
                session.claimed.pop(block, None)
        self.settled.clear()
        self.left = False

    def begin(self, objects: Objects) -> None:
        """Before the first write that it protects."""
        with self._lock:
            if not self._begun:
                objects.create(session_key(self.id), _sign_of_life())
                self._begun = True

    def prove(self, objects: Objects) -> None:
        """That it has lived all the time, and lives for another lease. UploadSessionEnded."""
        self.begin(objects)
        with self._lock:
            found = objects.get(session_key(self.id))
            while found is not None and found.data.startswith(ALIVE):
                if objects.replace(session_key(self.id), _sign_of_life(), found.etag):
                    return
                found = objects.get(session_key(self.id))
        raise UploadSessionEnded(self.id)

    def prove_for(self, objects: Objects, blocks: Collection[Block]) -> None:
        """It, and all before it that hold one of these. UploadSessionEnded."""
        self.prove(objects)
        for session in self.older:
            if any(map(session.holds, blocks)):
                session.prove(objects)

    def finish(self, objects: Objects) -> None:
        if self._begun:
            claims = [listed.key for listed in objects.list(f"{CLAIMS}{self.id}/")] if self.has_claims else []
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
