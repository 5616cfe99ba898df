"""Job code as files named by their hash, beside the database: blobs of megabytes would bloat its log."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from pathlib import Path

from gpunion.ports.store import BUNDLE_LIMIT_BYTES, StoreBroken, StoreFault

_DIGEST = re.compile(r"[0-9a-f]{64}")


class BundleFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, digest: str, data: bytes) -> None:
        """Durable when it returns; half a file never shows under the name."""
        path = self._path(digest)
        if len(data) > BUNDLE_LIMIT_BYTES:
            raise ValueError(f"{len(data)} bytes are more than the {BUNDLE_LIMIT_BYTES} a bundle may have")
        if path.exists():
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".new-", delete=False) as file:
                try:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                    os.replace(file.name, path)
                except BaseException:
                    os.unlink(file.name)
                    raise
            self._sync_folder()
        except OSError as error:
            kind = StoreFault if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreBroken
            raise kind(f"cannot keep a bundle in {self._folder}: {error.strerror}") from error

    def get(self, digest: str) -> bytes | None:
        try:
            return self._path(digest).read_bytes()
        except FileNotFoundError:
            return None

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ValueError("a bundle is named by 64 lower-case hexadecimal digits")
        return self._folder / digest

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
