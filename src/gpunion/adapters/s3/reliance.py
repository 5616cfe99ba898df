"""Which copies of blocks an upload may rely on, so that no collector takes them away before its seal.

What the session has put itself is spared with it. Who relies on a copy of another writes a claim first and
looks at the doomed ones then; a collector publishes whom it dooms first and looks at the claims then. So
one of the two sees the other. What a job's ledger keeps for an upload needs neither.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from gpunion.adapters.s3.layout import CLAIMS, DOOMED, SUSPECTS, Copy, copies_of, copy_by, suspect_key
from gpunion.adapters.s3.objects import Objects
from gpunion.adapters.s3.records import Record
from gpunion.adapters.s3.session import Owner, Session
from gpunion.domain.tree import HASH_PATTERN
from gpunion.ports.vault import BadManifest, VaultFault

LOOKERS = 8  # questions to the server at a time
# A base is whole when it is chosen; one that was lost and stored again may be a difference itself.
CHAIN_MAX = 4

T = TypeVar("T")
U = TypeVar("U")


class Reliance:
    """Of one process. Any number of threads at once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self._session = Session()
        self._suspects: set[str] = set()

    def session(self) -> Session:
        with self._lock:
            return self._session

    def enter(self, job_id: str) -> Session:
        with self._lock:
            self._session.jobs.add(job_id)
            return self._session

    def give_up(self, lost: Session) -> None:
        """Something that it relied on may be gone: everything is looked for again."""
        with self._lock:
            if self._session is lost:
                self._session = Session()

    def leave(self, job_id: str, session: Session) -> None:
        """That job's upload is over. With the last one the session is."""
        with self._lock:
            session.jobs.discard(job_id)
            session.pinned.pop(job_id, None)
            if session.jobs:
                return
            if self._session is session:
                self._session = Session()
        with suppress(VaultFault):  # else a collector ends it, a day later
            session.finish(self._objects)

    def build_on(self, session: Session, job_id: str, record: Record) -> None:
        """A checkpoint that the job's ledger keeps for this session."""
        self.read_suspects()
        session.pinned[job_id] = {
            (record.owner, copy.name): copy for copy in record.copies if copy.key not in self._suspects
        }

    def put(self, owner: Owner, name: str, stored: bytes, base: str | None) -> None:
        check_name(name)
        session = self.session()
        copy = copy_by(session.id, owner, name, base)
        if copy.key in self._suspects:  # our own was damaged, and a key is not used twice
            self.give_up(session)
            session = self.session()
            copy = copy_by(session.id, owner, name, base)
        session.begin(self._objects)
        self._objects.put(copy.key, stored)
        session.own[owner, name] = copy

    def present(self, owner: Owner, names: Iterable[str], job_id: str | None = None) -> dict[str, Copy]:
        """Those that can be relied on, for the seal of `job_id` or for an upload of any job."""
        session = self.session()
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            check_name(name)
        needed = _with_bases(session, owner, wanted, job_id)
        missing = [name for name, copy in needed.items() if copy is None]
        self._look_for(session, owner, missing)
        return {
            name: copy
            for name in wanted
            if (copy := session.find((owner, name), job_id)) and _rests(session, owner, name, job_id)
        }

    def with_bases(self, owner: Owner, names: Iterable[str], job_id: str) -> list[Copy]:
        """All that reading them needs, of those that are `present`."""
        needed = _with_bases(self.session(), owner, names, job_id)
        return [copy for copy in needed.values() if copy is not None]

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
        """All there are, sound ones first and whole ones before differences."""
        check_name(name)
        found = [Copy(listed.key) for listed in self._objects.list(copies_of(owner, name))]
        return sorted(found, key=lambda copy: (copy.key in self._suspects, copy.base is not None, copy.key))

    def _look_for(self, session: Session, owner: Owner, names: Collection[str]) -> None:
        """And for what they are differences from, a few steps deep."""
        for _ in range(CHAIN_MAX):
            found = self._sound_copies(owner, names)
            if not found:
                return
            self._claim(session, owner, found)
            bases = {copy.base for copy in found if copy.base is not None}
            names = [base for base in bases if (owner, base) not in session.claimed]

    def _sound_copies(self, owner: Owner, names: Collection[str]) -> list[Copy]:
        listed = self._at_once(lambda name: self.copies(owner, name), names)
        candidates = [copies for copies in listed if copies]
        if candidates:
            self.read_suspects()
        sound = ([copy for copy in copies if copy.key not in self._suspects] for copies in candidates)
        return [copies[0] for copies in sound if copies]

    def _claim(self, session: Session, owner: Owner, copies: list[Copy]) -> None:
        session.begin(self._objects)
        claim = json.dumps([copy.key for copy in copies]).encode()
        self._objects.put(f"{CLAIMS}{session.id}/{secrets.token_hex(8)}", claim)
        doomed = read_lists(self._objects, DOOMED)
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
        data = objects.get(listed.key)
        found.update(json.loads(data.data) if data is not None else ())
    return found


def check_name(name: str) -> None:
    if not HASH_PATTERN.fullmatch(name):
        raise BadManifest(f"{name!r} cannot name a block")


def _with_bases(
    session: Session, owner: Owner, names: Iterable[str], job_id: str | None
) -> dict[str, Copy | None]:
    found: dict[str, Copy | None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            copy = found[name] = session.find((owner, name), job_id)
            waiting += [] if copy is None or copy.base is None else [copy.base]
    return found


def _rests(session: Session, owner: Owner, name: str, job_id: str | None) -> bool:
    """Whether it and all that it is a difference from can be relied on."""
    following: str | None = name
    for _ in range(CHAIN_MAX + 1):
        copy = session.find((owner, following), job_id) if following is not None else None
        if copy is None or copy.base is None:
            return copy is not None
        following = copy.base
    return False
