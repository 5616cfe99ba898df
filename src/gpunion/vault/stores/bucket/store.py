"""A vault in a bucket, as a mirror in front of it asks it: packed bytes in and out, the vault's rules."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Collection
from typing import BinaryIO

from blake3 import blake3

from gpunion.vault import codec
from gpunion.vault import manifests as manifest_format
from gpunion.vault.compression import Buffer
from gpunion.vault.interfaces import HOLD_S
from gpunion.vault.manifest import (
    BLOCK_SIZE_BYTES,
    KEEP_AT_LEAST,
    BadManifest,
    CorruptBlock,
    Garbage,
    Manifest,
    MissingBlock,
    NothingSavedYet,
    UnknownCheckpoint,
    VaultUnavailable,
)
from gpunion.vault.packing import ForeignPacking, PlainPacking, check_stored
from gpunion.vault.stores.bucket import ledger as ledgers
from gpunion.vault.stores.bucket import records
from gpunion.vault.stores.bucket.collector import collect
from gpunion.vault.stores.bucket.jobs import Jobs, tries
from gpunion.vault.stores.bucket.layout import COLLECTED_KEY, VAULT_KEY, Copy, manifest_key
from gpunion.vault.stores.bucket.ledger import Ledger
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.bucket.reliance import Reliance
from gpunion.vault.stores.bucket.session import Block, Owner, UploadSession, UploadSessionEnded

FORMAT = {"format": 1, "block_size_bytes": BLOCK_SIZE_BYTES}
# Unreferenced blocks stay this long, also without an upload that is known to be under way.
GRACE_S = 3600.0
# Looking for garbage lists the whole bucket; one of all the machines does it, after a save.
COLLECT_EVERY_S = 3600.0


class BucketDesk:
    """Implements `vault.interfaces.VaultDesk`. Any number of threads at once."""

    def __init__(self, objects: Objects, *, create: bool = True, grace_s: float = GRACE_S) -> None:
        self._objects = objects
        self._grace_s = grace_s
        self._jobs = Jobs(objects)
        self._reliance = Reliance(objects)
        self._copies: dict[tuple[Owner, str], Copy] = {}  # where to read a block, as manifests told
        self._holds: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._looked_s = time.monotonic()
        _open(objects, create)

    def describe(self) -> str:
        return self._objects.where

    def check_room(self) -> None:
        """A bucket does not say how much it would still take."""

    def begin(self, job_id: str, epoch: int) -> None:
        self._begin(job_id, lambda ledger: epoch)

    def begin_copy(self, job_id: str, epoch: int) -> None:
        self._begin(job_id, lambda ledger: max(epoch, epoch if ledger.epoch is None else ledger.epoch))

    def _begin(self, job_id: str, epoch_by: Callable[[Ledger], int]) -> None:
        now_s = self._objects.now_s()
        upload = self._reliance.enter(job_id, now_s)
        ledger = self._jobs.change(
            job_id, lambda ledger: ledgers.begun(ledger, job_id, epoch_by(ledger), upload, now_s)
        )
        pins = (self._jobs.readable(job_id, name) for name in reversed(ledger.uploads[upload].pins))
        newest = next((record for record in pins if record is not None), None)
        self._reliance.build_on(job_id, upload, newest)

    def has(self, names: Collection[str], job_id: str | None = None) -> set[str]:
        return set(self._reliance.present(job_id, names))

    def put(self, name: str, stored: bytes, job_id: str | None = None) -> None:
        _packing(job_id).read_head(stored)
        self._reliance.put(job_id, name, stored)

    def fetch(self, name: str, job_id: str | None = None) -> bytes:
        return self._read(job_id, name)[1]

    def doubt(self, name: str, job_id: str | None = None) -> None:
        try:
            copy, stored = self._read(job_id, name)
        except MissingBlock:
            return
        try:
            _examined(job_id, name, stored)
        except CorruptBlock:
            self._reliance.suspect(job_id, copy)
            self._copies.pop((job_id, name), None)

    def examine(self, owner: Owner, copy: Copy) -> int:
        """That very copy, read and checked; how many bytes it stands for. A damaged one is noted as such."""
        found = self._objects.get(copy.key)
        if found is None:
            raise MissingBlock(f"the vault does not hold {copy.name}")
        try:
            return len(_examined(owner, copy.name, found.data))
        except CorruptBlock:
            self._reliance.suspect(owner, copy)
            raise

    def seal(self, job_id: str, manifest: bytes | BinaryIO) -> None:
        self._seal(job_id, manifest, adopted=False)

    def adopt(self, job_id: str, manifest: bytes | BinaryIO) -> None:
        self._seal(job_id, manifest, adopted=True)

    def _seal(self, job_id: str, manifest: bytes | BinaryIO, *, adopted: bool) -> None:
        decoded = manifest_format.decode(manifest)
        if decoded.job_id != job_id:
            raise BadManifest(f"a manifest of {decoded.job_id}, handed over as one of {job_id}")
        now_s = self._objects.now_s()
        for _ in tries(job_id):
            session, sealed = self._reliance.begin_seal(), None
            try:
                sealed = self._try_to_seal(session, decoded, adopted=adopted)
            finally:
                self._reliance.end_seal(session, job_id, sealed, now_s)
            if sealed is not None:
                return

    def latest(self, job_id: str) -> bytes | None:
        for _ in tries(job_id):
            ledger, _etag = self._jobs.read(job_id)
            if not ledger.sealed:
                return None
            record = self._jobs.record(job_id, ledger.sealed[-1])
            if record is not None:
                self._learn(record)
                return manifest_format.encode(record.manifest)
            if self._jobs.read(job_id)[0].sealed[-1:] == ledger.sealed[-1:]:
                raise BadManifest(
                    f"{ledger.sealed[-1].partition('/')[0]} is sealed, and its manifest is gone"
                )
        raise AssertionError("unreachable")

    def sealed(self, job_id: str) -> list[bytes]:
        found = []
        for name in self._jobs.read(job_id)[0].sealed:
            record = self._jobs.readable(job_id, name)
            if record is not None:
                self._learn(record)
                found.append(manifest_format.encode(record.manifest))
        return found

    def hold(self, job_id: str, checkpoint_id: str) -> str:
        hold, until_s = secrets.token_hex(16), self._objects.now_s() + HOLD_S
        self._jobs.change(
            job_id,
            lambda ledger: ledgers.with_hold(ledger, hold, _record(ledger, job_id, checkpoint_id), until_s),
        )
        self._holds[hold] = (job_id, checkpoint_id)
        return hold

    def renew(self, hold: str) -> None:
        if hold not in self._holds:
            raise UnknownCheckpoint("that hold has ended; the checkpoint may have been forgotten")
        job_id, checkpoint_id = self._holds[hold]
        until_s = self._objects.now_s() + HOLD_S
        self._jobs.change(
            job_id,
            lambda ledger: ledgers.with_hold(ledger, hold, _record(ledger, job_id, checkpoint_id), until_s),
        )

    def release(self, hold: str) -> None:
        job_id, _ = self._holds.pop(hold, (None, None))
        if job_id is not None:
            self._jobs.change(job_id, lambda ledger: ledgers.without_hold(ledger, hold))

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]:
        if keep < KEEP_AT_LEAST:
            raise ValueError(f"a vault keeps at least {KEEP_AT_LEAST} checkpoints of a job")
        dropped: tuple[str, ...] = ()

        def rule(ledger: Ledger) -> Ledger:
            nonlocal dropped
            changed, dropped = ledgers.forgotten(
                ledger,
                keep,
                lambda name: self._jobs.readable(job_id, name) is not None,
                self._objects.now_s(),
            )
            return changed if dropped else ledger

        self._jobs.change(job_id, rule)
        self._collect_now_and_then()
        return dropped

    def collect_garbage(self) -> Garbage:
        return collect(self._objects, self._grace_s)

    def _try_to_seal(self, session: UploadSession, manifest: Manifest, *, adopted: bool) -> set[Block] | None:
        """The blocks that the ledger keeps from now on. None: something came in between."""
        job_id = manifest.job_id
        ledger, etag = self._jobs.read(job_id)
        begun = session.jobs.get(job_id)
        if (before := ledger.find(manifest.checkpoint_id)) is not None:
            record = self._same_as(job_id, before, manifest)
            if begun is not None:
                self._jobs.change(job_id, lambda ledger: ledgers.without_upload(ledger, begun.upload))
            return {(record.owner, copy.name) for copy in record.copies}
        if not adopted:
            ledgers.check_epoch(ledger, job_id, manifest.epoch)
        if begun is None or begun.upload not in ledger.uploads:
            if begun is not None:  # what the ledger kept for it may be gone
                self._reliance.give_up(session)
            (self.begin_copy if adopted else self.begin)(job_id, manifest.epoch)
            return None
        owner = None if manifest.sealed is None else job_id
        names = manifest_format.block_names(manifest)
        found = self._reliance.present_for(session, owner, names, job_id)
        missing = sorted(names - found.keys())
        if missing:
            raise MissingBlock(f"{manifest.checkpoint_id} lacks {len(missing)} blocks, such as {missing[0]}")
        copies = list(found.values())
        blocks = {(owner, copy.name) for copy in copies}
        name = ledgers.record_of(manifest, session.id)
        try:
            session.prove_for(self._objects, blocks)
        except UploadSessionEnded:
            self._reliance.give_up(session)
            return None
        self._objects.put(manifest_key(job_id, name), records.encode(manifest, copies))
        sealed = self._jobs.replace(job_id, ledgers.with_sealed(ledger, name, begun.upload), etag)
        return blocks if sealed else None

    def _same_as(self, job_id: str, name: str, manifest: Manifest) -> records.Record:
        record = self._jobs.record(job_id, name)
        if record is None or record.manifest != manifest:
            raise BadManifest(f"{manifest.checkpoint_id} is sealed with another content")
        return record

    def _learn(self, record: records.Record) -> None:
        self._copies.update({(record.owner, copy.name): copy for copy in record.copies})

    def _read(self, owner: Owner, name: str) -> tuple[Copy, bytes]:
        """From where a manifest says it is; else from any copy there is."""
        known = self._reliance.session().own.get((owner, name)) or self._copies.get((owner, name))
        sound = known is not None and not self._reliance.is_suspect(known)
        if known is not None and sound and (found := self._objects.get(known.key)) is not None:
            return known, found.data
        for copy in self._reliance.copies(owner, name):
            if (found := self._objects.get(copy.key)) is not None:
                self._copies[owner, name] = copy
                return copy, found.data
        if known is not None:  # so that nobody builds on it
            self._reliance.suspect(owner, known)
        raise MissingBlock(f"the vault does not hold {name}")

    def _collect_now_and_then(self) -> None:
        with self._lock:
            if time.monotonic() - self._looked_s < COLLECT_EVERY_S:
                return
            self._looked_s = time.monotonic()
        found = self._objects.get(COLLECTED_KEY)
        now_s = self._objects.now_s()
        if found is not None and 0 <= now_s - _began_s(found.data) < COLLECT_EVERY_S:
            return
        note = json.dumps({"began_s": now_s}).encode()
        mine = (
            self._objects.create(COLLECTED_KEY, note)
            if found is None
            else self._objects.replace(COLLECTED_KEY, note, found.etag)
        )
        if mine:
            self.collect_garbage()


def _open(objects: Objects, create: bool) -> None:
    """Find the vault or make it, and find out whether this store keeps to conditions."""
    wanted = json.dumps(FORMAT).encode()
    found = objects.get(VAULT_KEY)
    if found is None and not create:
        raise NothingSavedYet(f"{objects.where} is no vault, or nothing was saved there yet")
    if found is None:
        objects.create(VAULT_KEY, wanted)
    elif found.data != wanted:
        raise VaultUnavailable(
            f"{objects.where} is a vault of another format, or its {VAULT_KEY} is damaged: "
            f"{found.data[:200]!r}. Next: look whether this is the right place; if it is, have {VAULT_KEY} "
            f"say what it says in every vault of this version: {wanted.decode()}"
        )
    if objects.create(VAULT_KEY, wanted) or objects.replace(VAULT_KEY, wanted, '"of nothing"'):
        raise VaultUnavailable(
            f"{objects.where}: this store ignores If-None-Match or If-Match, so two runs of a job could both "
            "save. Next: use a store with conditional writes, or a place of kind 'directory' or 'campus'"
        )


def _began_s(note: bytes) -> float:
    """Long ago, where nobody can tell."""
    try:
        return float(json.loads(note)["began_s"])
    except (ValueError, KeyError, TypeError):
        return 0.0


def _examined(owner: Owner, name: str, stored: bytes) -> Buffer:
    """Verified, as far as that can be done here."""
    if owner is not None:
        check_stored(name, stored)
        return stored
    data = codec.unpack(stored)
    if blake3(data).hexdigest() != name:
        raise CorruptBlock(f"{name} has other bytes than its name says")
    return data


def _packing(owner: Owner) -> PlainPacking | ForeignPacking:
    return PlainPacking() if owner is None else ForeignPacking()


def _record(ledger: Ledger, job_id: str, checkpoint_id: str) -> str:
    found = ledger.find(checkpoint_id)
    if found is None:
        raise UnknownCheckpoint(f"{job_id} has no checkpoint {checkpoint_id}")
    return found
