"""What a bucket knows of one job, in one object that is only ever replaced as a whole, by who has read it.

So a newer epoch, a seal, a forgetting and a hold come one after the other, whoever asks and however late.
Everything here is a value and a rule; `jobs` does the reading and the replacing.

    epoch      the newest that has begun
    sealed     records of the checkpoints that count, oldest first
    uploads    sessions with an upload under way, and the checkpoints that were sealed when they began
    holds      who reads which checkpoint, and until when
    damaged    records that `repair` took out of view
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

from gpunion.text import by_number
from gpunion.vault.damage import in_words
from gpunion.vault.manifest import DamagedRecord, Manifest, OldEpoch

FORMAT = 1
RECORD_PATTERN = re.compile(r"\d{10,}-\d{15,}-[^/]+/[^/]+")  # as `record_of` makes them
BEGUN_LEASE_S = 24 * 3600.0  # an upload that takes longer has died; if not, its seal looks for every block


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadUnderWay:
    epoch: int
    begun_s: float
    pins: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    record: str
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    epoch: int | None = None
    sealed: tuple[str, ...] = ()
    uploads: dict[str, UploadUnderWay] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()

    def find(self, checkpoint_id: str) -> str | None:
        return next((record for record in self.sealed if checkpoint_of(record) == checkpoint_id), None)

    def kept(self) -> set[str]:
        """Records whose blocks somebody relies on."""
        pinned = (record for upload in self.uploads.values() for record in upload.pins)
        return {*self.sealed, *pinned, *(hold.record for hold in self.holds.values())}


def record_of(manifest: Manifest, session: str) -> str:
    """Sorts by (epoch, step). The session makes it another object for each try."""
    return f"{manifest.epoch:010d}-{manifest.step:015d}-{manifest.checkpoint_id}/{session}"


def is_record(name: str) -> bool:
    """What a console or a person left among them is none."""
    return RECORD_PATTERN.fullmatch(name) is not None


def checkpoint_of(record: str) -> str:
    return record.partition("/")[0].split("-", 2)[2]


def epoch_of(record: str) -> int:
    return int(record.split("-", 1)[0])


def check_epoch(ledger: Ledger, job_id: str, epoch: int) -> None:
    if ledger.epoch is not None and epoch < ledger.epoch:
        raise OldEpoch(f"epoch {epoch} of {job_id}: epoch {ledger.epoch} has begun")


def begun(ledger: Ledger, job_id: str, epoch: int, session: str, now_s: float) -> Ledger:
    """Uploads of older epochs can seal nothing any more: what they put is garbage."""
    check_epoch(ledger, job_id, epoch)
    under_way = {name: upload for name, upload in ledger.uploads.items() if upload.epoch >= epoch}
    mine = under_way.get(session)
    pins = dict.fromkeys((*(mine.pins if mine is not None else ()), *ledger.sealed))
    under_way[session] = UploadUnderWay(epoch=epoch, begun_s=now_s, pins=tuple(pins))
    return replace(ledger, epoch=epoch, uploads=under_way)


def with_sealed(ledger: Ledger, record: str, session: str) -> Ledger:
    sealed = sorted((*ledger.sealed, record), key=by_number)
    return without_upload(replace(ledger, sealed=tuple(sealed)), session)


def without_upload(ledger: Ledger, session: str) -> Ledger:
    left = {name: upload for name, upload in ledger.uploads.items() if name != session}
    return replace(ledger, uploads=left)


def forgotten(
    ledger: Ledger, keep: int, readable: Callable[[str], bool], now_s: float
) -> tuple[Ledger, tuple[str, ...]]:
    """Only readable ones count as kept; who is read by somebody stays."""
    ledger = current(ledger, now_s)
    held = {hold.record for hold in ledger.holds.values()}
    kept, dropped = 0, []
    for record in reversed(ledger.sealed):
        if kept < keep:
            kept += readable(record)
        elif record not in held:
            dropped.append(record)
    left = tuple(record for record in ledger.sealed if record not in dropped)
    return replace(ledger, sealed=left), tuple(map(checkpoint_of, dropped))


def current(ledger: Ledger, now_s: float) -> Ledger:
    """Without holds and uploads whose owners have died."""
    return replace(
        ledger,
        holds={name: hold for name, hold in ledger.holds.items() if hold.until_s > now_s},
        uploads={
            name: upload for name, upload in ledger.uploads.items() if now_s - upload.begun_s < BEGUN_LEASE_S
        },
    )


def with_hold(ledger: Ledger, name: str, record: str, until_s: float) -> Ledger:
    return replace(ledger, holds=ledger.holds | {name: Hold(record=record, until_s=until_s)})


def without_hold(ledger: Ledger, name: str) -> Ledger:
    return replace(ledger, holds={other: hold for other, hold in ledger.holds.items() if other != name})


def set_aside(ledger: Ledger, record: str) -> Ledger:
    left = tuple(other for other in ledger.sealed if other != record)
    return replace(ledger, sealed=left, damaged=(*ledger.damaged, record))


def encode(ledger: Ledger) -> bytes:
    return json.dumps({"format": FORMAT} | asdict(ledger), separators=(",", ":")).encode()


def decode(job_id: str, data: bytes) -> Ledger:
    """Guessing at a damaged one could let an old run overwrite a newer one's work."""
    try:
        found = json.loads(data)
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}")
        return Ledger(
            epoch=None if found["epoch"] is None else int(found["epoch"]),
            sealed=tuple(found["sealed"]),
            uploads={
                name: UploadUnderWay(**(about | {"pins": tuple(about["pins"])}))
                for name, about in found["uploads"].items()
            },
            holds={name: Hold(**about) for name, about in found["holds"].items()},
            damaged=tuple(found["damaged"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedRecord(
            f"the record of {job_id} in the bucket is damaged: {in_words(error)}. Next: end what runs of "
            "this job, then gpunion vault repair"
        ) from error
