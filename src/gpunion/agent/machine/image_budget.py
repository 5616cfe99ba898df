"""Which images on this machine are ours, how much they take, and which goes when another one comes.

Only images that this agent has loaded are in the book, so an owner's own can never be chosen. An engine is
asked to remove without force: what a container uses stays, and so does what somebody has given a name.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from gpunion.domain.image import Archive, Image
from gpunion.domain.resources import GIB
from gpunion.files import read_json, write_json
from gpunion.ports.images import ImageFault, Images
from gpunion.text import size_in_words

BOOK = "book.json"
PART = ".part"
# An owner's machine with a full disk is a broken machine: so much is never taken.
KEEP_FREE_BYTES = GIB
# What was fetched by half is worth going on with for as long; then its job has gone elsewhere.
PART_MEMORY_S = 3600.0

log = structlog.get_logger()


class NoRoom(Exception):
    """The owner's quota or the disk does not allow it. The message says which, and how much is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    image_id: str
    ref: str
    size_bytes: int
    used_unix_s: float


class ImageShelf:
    """One folder: the book, and what is being fetched. Calls block; they may come from several threads."""

    def __init__(
        self,
        images: Images,
        folder: Path,
        quota_bytes: int,
        *,
        keep_free_bytes: int = KEEP_FREE_BYTES,
        now_unix_s: Callable[[], float] = time.time,
    ) -> None:
        self._images = images
        self._folder = folder
        self._quota_bytes = quota_bytes
        self._keep_free_bytes = keep_free_bytes
        self._now_unix_s = now_unix_s
        self._turn = threading.Lock()
        self._held: list[str] = []  # digests that a start is about to use, once for each start
        self._coming: dict[str, int] = {}  # archives there is room for, and how large they are

    @property
    def quota_bytes(self) -> int:
        return self._quota_bytes

    def landing(self, archive: Archive) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder / f"{archive.digest}{PART}"

    @contextlib.contextmanager
    def held(self, image: Image) -> Iterator[None]:
        self._held.append(image.digest)
        try:
            yield
        finally:
            self._held.remove(image.digest)

    def settled(self, archive: Archive) -> None:
        """It is an image in the book now, or will not come."""
        self._coming.pop(archive.digest, None)

    def kept(self) -> tuple[Kept, ...]:
        """The one that was not used for longest first."""
        record = read_json(os.fspath(self._folder / BOOK)) or {}
        entries = record.get("images")
        found = [_kept(entry) for entry in entries] if isinstance(entries, list) else []
        return tuple(sorted(found, key=lambda kept: (kept.used_unix_s, kept.image_id)))

    def brought(self, image_id: str, image: Image) -> None:
        with self._turn:
            others = [kept for kept in self.kept() if kept.image_id != image_id]
            size_bytes = self._images.size_bytes(image_id)
            new = Kept(
                image_id=image_id, ref=image.ref, size_bytes=size_bytes, used_unix_s=self._now_unix_s()
            )
            self._write([*others, new])

    def used(self, image_id: str) -> None:
        """Of one that is not ours nothing is noted."""
        with self._turn:
            kept = self.kept()
            if any(entry.image_id == image_id for entry in kept):
                now_s = self._now_unix_s()
                self._write(
                    [_touched(entry, now_s) if entry.image_id == image_id else entry for entry in kept]
                )

    def make_room(self, archive: Archive) -> None:
        """For the archive and, next to it, for what the engine makes of it. NoRoom where that cannot be."""
        with self._turn:
            self._drop_old_parts(archive)
            here_bytes = self._arrived_bytes(archive)
            if archive.size_bytes > self._quota_bytes:
                raise NoRoom(
                    f"the image takes {size_in_words(archive.size_bytes)}, its owner gives images "
                    f"{size_in_words(self._quota_bytes)} (image_quota)"
                )
            while True:
                taken_bytes = sum(kept.size_bytes for kept in self.kept()) + sum(self._coming.values())
                over_bytes = taken_bytes + archive.size_bytes - self._quota_bytes
                needs_bytes = 2 * archive.size_bytes - here_bytes + self._keep_free_bytes
                lacking_bytes = needs_bytes - self._free_bytes()
                if over_bytes <= 0 and lacking_bytes <= 0:
                    self._coming[archive.digest] = archive.size_bytes
                    return
                if not self._remove_oldest():
                    raise NoRoom(_why_not(archive, over_bytes, lacking_bytes))

    def clear(self) -> None:
        with self._turn:
            while self._remove_oldest():
                pass
            shutil.rmtree(self._folder, ignore_errors=True)

    def _remove_oldest(self) -> bool:
        """False: none of ours can go."""
        kept = self.kept()
        for entry in kept:
            if any(entry.ref.endswith(digest) for digest in self._held):
                continue
            try:
                gone = self._images.remove(entry.image_id)
            except ImageFault as fault:
                log.warning("image_not_removed", image=entry.ref, trouble=str(fault))
                continue
            if gone:
                self._write([other for other in kept if other.image_id != entry.image_id])
                log.info("image_removed", image=entry.ref, size_bytes=entry.size_bytes)
                return True
        return False

    def _free_bytes(self) -> int:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return shutil.disk_usage(self._folder).free

    def _arrived_bytes(self, archive: Archive) -> int:
        part = self.landing(archive)
        return part.stat().st_size if part.exists() else 0

    def _drop_old_parts(self, but: Archive) -> None:
        for part in self._folder.glob(f"*{PART}"):
            if part != self.landing(but) and part.stat().st_mtime < self._now_unix_s() - PART_MEMORY_S:
                part.unlink(missing_ok=True)

    def _write(self, kept: list[Kept]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        entries = [
            {"id": k.image_id, "ref": k.ref, "size_bytes": k.size_bytes, "used_unix_s": k.used_unix_s}
            for k in kept
        ]
        write_json(os.fspath(self._folder / BOOK), {"images": entries})


def _kept(entry: dict[str, object]) -> Kept:
    return Kept(
        image_id=str(entry["id"]),
        ref=str(entry["ref"]),
        size_bytes=int(str(entry["size_bytes"])),
        used_unix_s=float(str(entry["used_unix_s"])),
    )


def _touched(kept: Kept, now_s: float) -> Kept:
    return Kept(image_id=kept.image_id, ref=kept.ref, size_bytes=kept.size_bytes, used_unix_s=now_s)


def _why_not(archive: Archive, over_bytes: int, lacking_bytes: int) -> str:
    needs = f"the image takes {size_in_words(archive.size_bytes)}"
    if over_bytes > 0:
        over = size_in_words(over_bytes)
        return f"{needs}, {over} more than the owner's quota for images has left (all are in use)"
    return f"{needs}, and the disk lacks {size_in_words(lacking_bytes)} for it"
