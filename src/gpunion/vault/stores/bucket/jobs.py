"""Reads what a bucket knows of a job, and replaces it only as it was read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpunion.text import by_number
from gpunion.vault import manifests as manifest_format
from gpunion.vault.manifest import BadManifest, DamagedRecord, VaultUnavailable
from gpunion.vault.stores.bucket import ledger as ledgers
from gpunion.vault.stores.bucket import records
from gpunion.vault.stores.bucket.layout import JOBS, ledger_key, manifest_key
from gpunion.vault.stores.bucket.ledger import Ledger
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.bucket.records import Record

# Each try that fails is somebody else's that went through; a job has few who write.
TRIES = 40
WAIT_S = 0.02


@dataclass(frozen=True, slots=True)
class Jobs:
    objects: Objects

    def read(self, job_id: str) -> tuple[Ledger, str | None]:
        """With its mark for `replace`; None: there is nothing yet."""
        manifest_format.check_id(job_id)
        found = self.objects.get(ledger_key(job_id))
        if found is None and self._records(job_id):
            found = self.objects.get(ledger_key(job_id))  # somebody may have begun just now
            if found is None:
                raise DamagedRecord(lost_in_words(job_id))
        return (Ledger(), None) if found is None else (ledgers.decode(job_id, found.data), found.etag)

    def replace(self, job_id: str, ledger: Ledger, etag: str | None) -> bool:
        data = ledgers.encode(ledger)
        if etag is None:
            return self.objects.create(ledger_key(job_id), data)
        return self.objects.replace(ledger_key(job_id), data, etag)

    def change(self, job_id: str, rule: Callable[[Ledger], Ledger]) -> Ledger:
        """Applied to what is there at that very moment. A rule may be asked several times, and may refuse."""
        for _ in tries(job_id):
            ledger, etag = self.read(job_id)
            changed = rule(ledger)
            if changed == ledger or self.replace(job_id, changed, etag):
                return changed
        raise AssertionError("unreachable")

    def record(self, job_id: str, name: str) -> Record | None:
        """None: it is gone. BadManifest: it is damaged."""
        found = self.objects.get(manifest_key(job_id, name))
        if found is None:
            return None
        try:
            record = records.decode(found.data)
        except BadManifest as error:
            raise BadManifest(f"{name.partition('/')[0]}: {error}") from error
        if record.manifest.job_id != job_id:
            raise BadManifest(f"{name.partition('/')[0]} is of {record.manifest.job_id}, not of {job_id}")
        return record

    def readable(self, job_id: str, name: str) -> Record | None:
        try:
            return self.record(job_id, name)
        except BadManifest:
            return None

    def all(self) -> list[str]:
        """Every job with a ledger. BadManifest where one has manifests and none: it was lost, or a list came
        in part, and a collector that went on would delete what that job has."""
        known, lost = self.known_and_lost()
        if lost:
            raise DamagedRecord(lost_in_words(lost[0]))
        return known

    def known_and_lost(self) -> tuple[list[str], list[str]]:
        """Jobs with a ledger, and those that have lost theirs."""
        parts = [listed.key.split("/") for listed in self.objects.list(JOBS)]
        known = {part[1] for part in parts if part[2:] == ["ledger.json"]}
        saved = {
            part[1] for part in parts if part[2:3] == ["manifests"] and ledgers.is_record("/".join(part[3:]))
        }
        return sorted(known), sorted(saved - known)

    def rebuild(self, job_id: str) -> Ledger:
        """In place of one that is damaged or lost: all that can be read counts as sealed, and the newest run
        is the newest that any of them is named after. What had been forgotten may come back, whole."""
        found = self.objects.get(ledger_key(job_id))
        names = self._records(job_id)
        readable = {
            ledgers.checkpoint_of(name): name for name in names if self.readable(job_id, name) is not None
        }
        ledger = Ledger(
            epoch=max((ledgers.epoch_of(name) for name in names), default=0),
            sealed=tuple(sorted(readable.values(), key=by_number)),
        )
        if not self.replace(job_id, ledger, None if found is None else found.etag):
            raise VaultUnavailable(
                f"the record of {job_id} in the bucket was changed meanwhile: repair again"
            )
        return ledger

    def _records(self, job_id: str) -> list[str]:
        prefix = manifest_key(job_id, "")
        names = (listed.key.removeprefix(prefix) for listed in self.objects.list(prefix))
        return [name for name in names if ledgers.is_record(name)]


def tries(job_id: str) -> Iterator[int]:
    """As many as make sense, each a little later than the one before; then the vault is unavailable."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(random.uniform(0, WAIT_S * min(attempt, 10)))
        yield attempt
    raise VaultUnavailable(f"the record of {job_id} in the bucket is changed by others all the time")


def lost_in_words(job_id: str) -> str:
    return (
        f"{job_id} has checkpoints in the bucket, and the record is lost that says which of them count. "
        "Next: end what runs of this job, then gpunion vault repair"
    )
