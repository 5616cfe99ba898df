"""Where one job's records lie in a directory vault, and what their names say."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from gpunion.text import by_number
from gpunion.vault.damage import in_words
from gpunion.vault.manifest import DamagedRecord, Manifest

EPOCH_DIGITS = 10
NAME_PATTERN = re.compile(rf"\d{{{EPOCH_DIGITS}}}-\d{{15}}-[A-Za-z0-9._-]+\.json")


class Misplaced(DamagedRecord):
    """Sound, and of another job than the folder it lies in: a person can put it right."""


class Shelf:
    """Knows names and reads them; it changes nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = root / "lock"
        self.begun = root / "begun"
        self.epoch_file = root / "epoch.json"
        self.manifests = root / "manifests"
        self.damaged = root / "damaged"
        self.own_blocks = root / "blocks"

    def epoch(self) -> int | None:
        """The newest epoch that has begun; None when none has."""
        try:
            record = json.loads(self.epoch_file.read_bytes())
            # One that names no job is of an earlier version.
            job_id, epoch = str(record.get("job_id", self.root.name)), int(record["epoch"])
        except FileNotFoundError:
            return self.last_epoch()  # where it was lost, at least nothing older than what is sealed
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Guessing here could let an old run overwrite a newer one's work.
            raise DamagedRecord(
                f"the epoch record of {self.root.name} is damaged: {in_words(error)}. Next: end what runs of "
                "this job, then gpunion vault repair"
            ) from error
        self.check_owner(job_id)
        return epoch

    def likely_epoch(self) -> int:
        """To mend the record with. A sound one stays: a repair takes hours, and somebody else may have mended
        it since it was looked at."""
        try:
            return self.epoch() or 0
        except Misplaced:
            raise
        except DamagedRecord:
            return self.last_epoch() or 0

    def epoch_record(self, epoch: int) -> bytes:
        return json.dumps({"job_id": self.root.name, "epoch": epoch}).encode()

    def check_owner(self, job_id: str) -> None:
        """Nothing of one job is ever given to another, however their folders came to be mixed up."""
        if job_id != self.root.name:
            raise Misplaced(
                f"what lies in the folder of {self.root.name} is of {job_id}. Next: give the folders under "
                f"{self.root.parent} their own names back"
            )

    def last_epoch(self) -> int | None:
        """The newest that any record here is named after, also one that cannot be read."""
        names = (*_records(self.manifests), *_records(self.damaged))
        return max((int(name[:EPOCH_DIGITS]) for name in names), default=None)

    def path_of(self, manifest: Manifest) -> Path:
        name = f"{manifest.epoch:010d}-{manifest.step:015d}-{manifest.checkpoint_id}.json"
        return self.manifests / name

    def sealed(self) -> list[Path]:
        """Manifests by (epoch, step), oldest first: their names sort that way."""
        return [self.manifests / name for name in sorted(_records(self.manifests), key=by_number)]

    def find(self, checkpoint_id: str) -> Path | None:
        return next((path for path in self.sealed() if self.checkpoint_id(path) == checkpoint_id), None)

    @staticmethod
    def checkpoint_id(path: Path) -> str:
        return path.name.removesuffix(".json").split("-", 2)[2]


def _records(folder: Path) -> list[str]:
    """OSError where it is there and cannot be read: a collector must not take that for an empty one, as a
    glob does."""
    try:
        return [name for name in os.listdir(folder) if NAME_PATTERN.fullmatch(name)]
    except FileNotFoundError:
        return []
