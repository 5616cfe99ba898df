"""Looks after a vault in a bucket that others go on using.

A record names the very copies it rests on. What is mended gets a new copy, and the checkpoint a new record
that names it; the ledger takes the one for the other in one step.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from gpunion.text import by_number
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import BadManifest, CorruptBlock, MissingBlock, UnknownCheckpoint
from gpunion.vault.manifests import block_names
from gpunion.vault.stores.bucket import ledger as ledgers
from gpunion.vault.stores.bucket import records
from gpunion.vault.stores.bucket.jobs import Jobs
from gpunion.vault.stores.bucket.layout import Copy, copy_by, manifest_key
from gpunion.vault.stores.bucket.ledger import Ledger
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.bucket.records import Record
from gpunion.vault.stores.bucket.session import UploadSession
from gpunion.vault.stores.bucket.store import BucketDesk
from gpunion.vault.transfer.copying import LOST, sound_from
from gpunion.vault.vault_care import Findings, JobShelf, LostFence, Progress, Repaired, Unreadable

READERS = 8
LEDGER = "ledger.json"


@dataclass
class _Reading:
    """Each copy once, however many checkpoints rest on it."""

    done: dict[str, str | None] = field(default_factory=dict)
    not_read: set[str] = field(default_factory=set)  # names of blocks that a newer version has stored
    bytes: dict[str, int] = field(default_factory=dict)
    checkpoints: int = 0
    encrypted: int = 0
    encrypted_keys: set[str] = field(default_factory=set)


class BucketCaretaker:
    """Implements `vault.vault_care.Caretaker`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._desk = BucketDesk(objects, create=False)
        self._jobs = Jobs(objects)

    def survey(self, job_id: str | None) -> tuple[JobShelf, ...]:
        return tuple(self._shelf(name) for name in self._names(job_id))

    def verify(self, job_id: str | None, progress: Progress) -> Findings:
        reading, unreadable = _Reading(), []
        known, fences = self._ledgers(job_id)
        sealed = [(job, name) for job, ledger in known.items() for name in ledger.sealed]
        total = len({copy.key for job, name in sealed for copy in self._copies(job, name)})
        for job, name in sealed:
            trouble = self._check(job, name, reading, lambda done: progress(done, max(done, total)))
            if trouble is not None:
                unreadable.append(trouble)
        plain = sum(size for key, size in reading.bytes.items() if key not in reading.encrypted_keys)
        return Findings(
            checkpoints=reading.checkpoints,
            blocks=len(reading.done),
            plain_bytes=plain,
            unreadable=tuple(unreadable),
            encrypted=reading.encrypted,
            encrypted_bytes=sum(reading.bytes[key] for key in reading.encrypted_keys),
            fences=fences,
        )

    def repair(self, job_id: str | None, source: VaultDesk | None, progress: Progress) -> Repaired:
        _, lost_fences = self._ledgers(job_id)
        fences = tuple((lost.job_id, self._jobs.rebuild(lost.job_id).epoch or 0) for lost in lost_fences)
        before = replace(self.verify(job_id, progress), fences=lost_fences)
        replaced: list[str] = []
        for lost in before.unreadable:
            if lost.blocks and not lost.passing:
                with suppress(*LOST):  # any other fault ends the repair before anything is out of view
                    replaced += self._mend(lost, source)
        left = before if not replaced else self.verify(job_id, progress)
        set_aside: list[Unreadable] = []
        in_use: list[Unreadable] = []
        not_read = tuple(lost for lost in left.unreadable if lost.passing)
        for lost in left.unreadable:
            if not lost.passing:
                (set_aside if self._set_aside(lost) else in_use).append(lost)
        return Repaired(
            before=before,
            replaced=tuple(dict.fromkeys(replaced)),
            set_aside=tuple(set_aside),
            in_use=tuple(in_use),
            not_read=not_read,
            fences=fences,
        )

    def _names(self, job_id: str | None) -> list[str]:
        names = sorted(name for names in self._jobs.known_and_lost() for name in names)
        if job_id is None:
            return names
        if job_id not in names:
            raise UnknownCheckpoint(f"nothing of {job_id} is in {self._objects.where}")
        return [job_id]

    def _ledgers(self, job_id: str | None) -> tuple[dict[str, Ledger], tuple[LostFence, ...]]:
        """Of the jobs that have one which can be read, and the others."""
        found: dict[str, Ledger] = {}
        fences = []
        for name in self._names(job_id):
            try:
                found[name], _ = self._jobs.read(name)
            except BadManifest as error:
                fences.append(LostFence(job_id=name, detail=str(error)))
        return found, tuple(fences)

    def _shelf(self, job_id: str) -> JobShelf:
        known, _ = self._ledgers(job_id)
        if job_id not in known:
            return JobShelf(job_id=job_id, epoch=None, checkpoints=(), damaged=(LEDGER,))
        ledger = known[job_id]
        found = [(name, self._jobs.readable(job_id, name)) for name in ledger.sealed]
        return JobShelf(
            job_id=job_id,
            epoch=ledger.epoch,
            checkpoints=tuple(record.manifest for _, record in found if record is not None),
            damaged=tuple(name for name, record in found if record is None),
        )

    def _copies(self, job_id: str, name: str) -> tuple[Copy, ...]:
        record = self._jobs.readable(job_id, name)
        return () if record is None else record.copies

    def _check(
        self, job_id: str, name: str, reading: _Reading, reached: Callable[[int], None]
    ) -> Unreadable | None:
        try:
            record = self._jobs.record(job_id, name)
        except BadManifest as error:
            reading.checkpoints += 1
            return _unreadable(job_id, name, (), str(error), encrypted=False)
        if record is None:
            return None if name not in self._jobs.read(job_id)[0].sealed else _gone(job_id, name)
        reading.checkpoints += 1
        reading.encrypted += record.owner is not None
        new = [copy for copy in record.copies if copy.key not in reading.done]
        with ThreadPoolExecutor(READERS) as pool:
            for copy, (size, trouble, is_known) in zip(
                new, pool.map(self._examiner(record), new), strict=True
            ):
                reading.done[copy.key], reading.bytes[copy.key] = trouble, size
                if not is_known:
                    reading.not_read.add(copy.name)
                if record.owner is not None:
                    reading.encrypted_keys.add(copy.key)
                reached(len(reading.done))
        bad = {
            copy.name: trouble for copy in record.copies if (trouble := reading.done[copy.key]) is not None
        }
        if not bad:
            return None
        detail = next(iter(bad.values()))
        found = _unreadable(job_id, name, tuple(sorted(bad)), detail, encrypted=record.owner is not None)
        return replace(found, passing=reading.not_read.issuperset(bad))

    def _examiner(self, record: Record) -> Callable[[Copy], tuple[int, str | None, bool]]:
        """How many bytes, what is wrong with them, and whether this version could tell."""

        def examine(copy: Copy) -> tuple[int, str | None, bool]:
            try:
                return self._desk.examine(record.owner, copy), None, True
            except (CorruptBlock, MissingBlock) as fault:
                return 0, str(fault), True

        return examine

    def _mend(self, lost: Unreadable, source: VaultDesk | None) -> list[str]:
        """New copies of what is damaged, then a record that names them. Those that were mended."""
        record = self._jobs.record(lost.job_id, lost.record)
        if record is None:
            return []
        session = UploadSession()
        session.begin(self._objects)
        fresh: dict[str, Copy] = {}
        for name in lost.blocks:
            stored = self._sound(record, name, source)
            if stored is not None:
                fresh[name] = copy_by(session.id, record.owner, name)
                self._objects.put(fresh[name].key, stored)
        copies = {copy.name: copy for copy in record.copies} | fresh
        mended = fresh.keys() >= set(lost.blocks) and copies.keys() >= block_names(record.manifest)
        if mended:
            self._take(lost, record, session, list(copies.values()))
        session.finish(self._objects)
        return sorted(fresh) if mended else []

    def _sound(self, record: Record, name: str, source: VaultDesk | None) -> bytes | None:
        """From another copy in the bucket, or from the other vault."""
        for desk in (self._desk, source):
            if desk is not None:
                with suppress(*LOST):
                    return sound_from(desk, name, record.owner)
        return None

    def _take(self, lost: Unreadable, record: Record, session: UploadSession, copies: list[Copy]) -> None:
        name = ledgers.record_of(record.manifest, session.id)
        self._objects.put(manifest_key(lost.job_id, name), records.encode(record.manifest, copies))
        session.prove(self._objects)

        def rule(ledger: Ledger) -> Ledger:
            if lost.record not in ledger.sealed:
                return ledger
            names = (name if other == lost.record else other for other in ledger.sealed)
            return replace(ledger, sealed=tuple(sorted(names, key=by_number)))

        self._jobs.change(lost.job_id, rule)

    def _set_aside(self, lost: Unreadable) -> bool:
        """False while somebody reads it."""
        now_s = self._objects.now_s()
        moved = False

        def rule(ledger: Ledger) -> Ledger:
            nonlocal moved
            ledger = ledgers.current(ledger, now_s)
            moved = lost.record not in {hold.record for hold in ledger.holds.values()}
            return ledgers.set_aside(ledger, lost.record) if moved else ledger

        self._jobs.change(lost.job_id, rule)
        return moved


def _gone(job_id: str, name: str) -> Unreadable:
    return _unreadable(job_id, name, (), "its manifest is gone", encrypted=False)


def _unreadable(
    job_id: str, name: str, blocks: tuple[str, ...], detail: str, *, encrypted: bool
) -> Unreadable:
    return Unreadable(
        job_id=job_id,
        record=name,
        checkpoint_id=ledgers.checkpoint_of(name),
        blocks=blocks,
        detail=detail,
        encrypted=encrypted,
    )
