"""The campus's own store of images: archives as files named by their hash, sent piece by piece."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable
from pathlib import Path

from gpunion.domain.image import Archive
from gpunion.domain.image_settings import ImageSettings
from gpunion.wire.image_archive import BadArchive, check_reduced, file_digest, settings_in

PART = ".part"
# The database lives on the same disk, and a campus without images is better than one without a coordinator.
KEEP_FREE_BYTES = 512 * 1024**2
# Who sends an image and stops in the middle has until then to go on.
PART_MEMORY_S = 86400.0


class OutOfStep(Exception):
    """A piece that does not begin where the last one ended; `expected` says where that was."""

    def __init__(self, expected: int) -> None:
        super().__init__(f"the next byte wanted is {expected}")
        self.expected = expected


class NoRoom(Exception):
    """The disk is too full for it. What had arrived of it is removed."""


class ImageArchives:
    """Digests have been checked to be 64 hexadecimal digits: they become file names. Calls block."""

    def __init__(self, folder: Path, keep_free_bytes: int = KEEP_FREE_BYTES) -> None:
        self._folder = folder
        self._keep_free_bytes = keep_free_bytes

    def path(self, digest: str) -> Path:
        return self._folder / digest

    def find(self, digest: str) -> Archive | None:
        """Only what has arrived in full and was checked."""
        try:
            return Archive(digest=digest, size_bytes=self.path(digest).stat().st_size)
        except FileNotFoundError:
            return None

    def reached(self, digest: str) -> int:
        try:
            return self._part(digest).stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, digest: str, offset: int, data: bytes) -> int:
        reached = self.reached(digest)
        if offset != reached:
            raise OutOfStep(reached)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._refuse_when_full(len(data))
            with open(self._part(digest), "ab") as part:
                part.write(data)
        except OSError as error:
            self._part(digest).unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoRoom("the coordinator's disk is full; what had arrived was removed") from error
            raise
        return reached + len(data)

    def finish(self, digest: str) -> Archive:
        """All of it is here. BadArchive where it is not what it was called, or no image."""
        part = self._part(digest)
        try:
            actual = file_digest(part)
            if actual != digest:
                raise BadArchive(f"what arrived has SHA-256 {actual}, not {digest}")
            check_reduced(part)
        except FileNotFoundError as error:
            raise BadArchive("nothing of it has arrived") from error
        except BadArchive:
            part.unlink(missing_ok=True)
            raise
        with open(part, "rb") as written:
            os.fsync(written.fileno())
        part.rename(self.path(digest))
        return Archive(digest=digest, size_bytes=self.path(digest).stat().st_size)

    def image_in(self, digest: str) -> str:
        return check_reduced(self.path(digest))

    def settings(self, digest: str) -> ImageSettings:
        return settings_in(self.path(digest))

    def remove(self, digest: str) -> None:
        self.path(digest).unlink(missing_ok=True)

    def sweep(self, wanted: Iterable[str], now_s: float | None = None) -> None:
        """Forget what nobody lists, and what somebody began to send and never did."""
        keep = set(wanted)
        before_s = (time.time() if now_s is None else now_s) - PART_MEMORY_S
        for file in self._folder.glob("*"):
            if file.suffix == PART and file.stat().st_mtime > before_s:
                continue
            if file.name not in keep:
                file.unlink(missing_ok=True)

    def _part(self, digest: str) -> Path:
        return self._folder / f"{digest}{PART}"

    def _refuse_when_full(self, size_bytes: int) -> None:
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize < size_bytes + self._keep_free_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
