"""Which copies of blocks an upload may rely on, so that no collector takes them away before its seal.

What the session has put itself is spared with it. Who relies on a copy of another writes a claim first and
looks at the doomed ones then; a collector publishes whom it dooms first and looks at the claims then. So
one of the two sees the other. What a job's ledger keeps for an upload needs neither. A session lets go of
what a seal has named: the ledger keeps that.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from gpunion.vault.damage import in_words
from gpunion.vault.manifest import BadManifest, VaultFault
from gpunion.vault.stores.bucket.layout import CLAIMS, DOOMED, SUSPECTS, Copy, copies_of, copy_by, suspect_key
from gpunion.vault.stores.bucket.ledger import BEGUN_LEASE_S
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.bucket.records import Record
from gpunion.vault.stores.bucket.session import Begun, Block, Owner, UploadSession
from gpunion.vault.tree import HASH_PATTERN

LOOKERS = 8  # questions to the server at a time
# While uploads of several jobs overlap their session is followed by a new one no more often: a collector does
# not come more often either.
FOLLOW_EVERY_S = 3600.0

T = TypeVar("T")
U = TypeVar("U")


class Reliance:
    """Of one process. Any number of threads at once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self._session = UploadSession()
        self._suspects: set[str] = set()
        self._follow_again_s = 0.0

    def session(self) -> UploadSession:
        with self._lock:
            return self._session

    def enter(self, job_id: str, now_s: float) -> str:
        """What the job's ledger shall call its upload."""
        with self._lock:
            session = self._session
            before = session.jobs.get(job_id)
            session.jobs[job_id] = Begun(session.id if before is None else before.upload, now_s)
            return session.jobs[job_id].upload

    def give_up(self, lost: UploadSession) -> None:
        """Something that it relied on may be gone: everything is looked for again."""
        with self._lock:
            if self._session is lost:
                self._session = UploadSession()

    def begin_seal(self) -> UploadSession:
        """Until `end_seal` nothing that it has is given free."""
        with self._lock:
            self._session.sealing += 1
            return self._session

    def end_seal(
        self, session: UploadSession, job_id: str, sealed: Collection[Block] | None, now_s: float
    ) -> None:
        """`sealed`: what the job's ledger keeps from now on; None: it did not come to a seal."""
        with self._lock:
            session.sealing -= 1
            if sealed is not None:
                session.leave(job_id)
                session.settled.update(sealed)
                session.left = True
            over = self._over(session, now_s) if session.left and not session.sealing else ()
        for each in over:
            with suppress(VaultFault):  # else a collector ends it, a day later
                each.finish(self._objects)

    def _over(self, session: UploadSession, now_s: float) -> tuple[UploadSession, ...]:
        """Those sessions that nobody needs any more, after a seal.

        A job that began and never seals must not keep alive what others put and seal. So those go on in a new
        session, and an old one stays only while it has blocks that no seal has named and one of the jobs that
        had begun in it may yet do so."""
        session.let_go()
        for job_id, begun in list(session.jobs.items()):
            if now_s - begun.begun_s >= BEGUN_LEASE_S:
                session.leave(job_id)
        line, current = session.line(), self._session is session
        if not session.jobs:
            self._session = UploadSession() if current else self._session
            return line
        if not current:
            return ()
        kept = tuple(each for each in line if each.jobs and (each.own or each.claimed))
        if session in kept and now_s < self._follow_again_s:
            session.older = kept[1:]
        else:
            self._follow_again_s = now_s + FOLLOW_EVERY_S if session in kept else self._follow_again_s
            self._session = UploadSession(jobs=dict(session.jobs), pinned=session.pinned, older=kept)
        return tuple(each for each in line if each not in kept)

    def build_on(self, job_id: str, upload: str, record: Record | None) -> None:
        """A checkpoint that the job's ledger keeps for this upload."""
        sound: dict[Block, Copy] = {}
        if record is not None:
            self.read_suspects()
            whole = (copy for copy in record.copies if copy.key not in self._suspects)
            sound = {(record.owner, copy.name): copy for copy in whole}
        with self._lock:
            begun = self._session.jobs.get(job_id)
            if begun is not None and begun.upload == upload:
                self._session.pinned[job_id] = sound

    def put(self, owner: Owner, name: str, stored: bytes) -> None:
        check_name(name)
        while True:
            session = self.session()
            copy = copy_by(session.id, owner, name)
            if copy.key in self._suspects:  # our own was damaged, and a key is not used twice
                self.give_up(session)
                continue
            session.begin(self._objects)
            self._objects.put(copy.key, stored)
            session.own[owner, name] = copy
            if self._still_counts(session):
                return

    def present(self, owner: Owner, names: Iterable[str]) -> dict[str, Copy]:
        """Those that can be relied on, for an upload of any job."""
        wanted = list(dict.fromkeys(names))
        while True:
            session = self.session()
            found = self.present_for(session, owner, wanted, None)
            if self._still_counts(session):
                return found

    def present_for(
        self, session: UploadSession, owner: Owner, names: Collection[str], job_id: str | None
    ) -> dict[str, Copy]:
        """The same for the seal of `job_id`."""
        for name in names:
            check_name(name)
        missing = [name for name in names if session.find((owner, name), job_id) is None]
        sound = self._sound_copies(owner, missing)
        if sound:
            self._claim(session, owner, sound)
        return {name: copy for name in names if (copy := session.find((owner, name), job_id))}

    def suspect(self, owner: Owner, copy: Copy) -> None:
        """It was found damaged: it counts as absent, here and for everybody else."""
        self._suspects.add(copy.key)
        self.session().drop((owner, copy.name), copy)
        with suppress(VaultFault):  # a note; a full bucket takes none
            self._objects.put(suspect_key(copy), b"")

    def is_suspect(self, copy: Copy) -> bool:
        return copy.key in self._suspects

    def read_suspects(self) -> None:
        self._suspects |= {listed.key.removeprefix(SUSPECTS) for listed in self._objects.list(SUSPECTS)}

    def copies(self, owner: Owner, name: str) -> list[Copy]:
        """All there are, sound ones first."""
        check_name(name)
        found = [Copy(listed.key) for listed in self._objects.list(copies_of(owner, name))]
        return sorted(found, key=lambda copy: (copy.key in self._suspects, copy.key))

    def _still_counts(self, session: UploadSession) -> bool:
        """It was not finished while something was written to it."""
        return session in self.session().line()

    def _sound_copies(self, owner: Owner, names: Collection[str]) -> list[Copy]:
        listed = self._at_once(lambda name: self.copies(owner, name), names)
        candidates = [copies for copies in listed if copies]
        if candidates:
            self.read_suspects()
        sound = ([copy for copy in copies if copy.key not in self._suspects] for copies in candidates)
        return [copies[0] for copies in sound if copies]

    def _claim(self, session: UploadSession, owner: Owner, copies: list[Copy]) -> None:
        session.begin(self._objects)
        session.has_claims = True
        claim = json.dumps([copy.key for copy in copies]).encode()
        self._objects.put(f"{CLAIMS}{session.id}/{secrets.token_hex(8)}", claim)
        try:
            doomed = read_lists(self._objects, DOOMED)
        except BadManifest:
            return  # any of them may be doomed: we store our own
        spared = [copy for copy in copies if copy.key not in doomed]
        # They were listed before the claim was written: by now they may be gone.
        there = self._at_once(lambda copy: self._objects.exists(copy.key), spared)
        for copy, is_there in zip(spared, there, strict=True):
            if is_there:
                session.claimed[owner, copy.name] = copy

    def _at_once(self, ask: Callable[[T], U], about: Collection[T]) -> list[U]:
        if len(about) <= 1:
            return [ask(one) for one in about]
        with ThreadPoolExecutor(LOOKERS) as pool:
            return list(pool.map(ask, about))


def read_lists(objects: Objects, prefix: str) -> set[str]:
    """The keys in every list below `prefix`. One that goes meanwhile is over."""
    found: set[str] = set()
    for listed in objects.list(prefix):
        found |= read_list(objects, listed.key)
    return found


def read_list(objects: Objects, key: str) -> set[str]:
    """BadManifest where nobody can tell any more what was in it."""
    found = objects.get(key)
    try:
        return set() if found is None else set(json.loads(found.data))
    except (ValueError, TypeError) as error:
        raise BadManifest(
            f"{key} in {objects.where} is damaged: {in_words(error)}. It goes by itself, a day after whoever "
            "wrote it has ended"
        ) from error


def check_name(name: str) -> None:
    if not HASH_PATTERN.fullmatch(name):
        raise BadManifest(f"{name!r} cannot name a block")
