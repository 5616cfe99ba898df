"""The campus's images over HTTP, as docs/http-api.md has them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpunion.sdk.errors import ApiProblem

# A few pieces a second on a gigabit; one is held in memory on both sides.
PIECE_BYTES = 8 * 1024**2
# The last piece is answered when all of a large file was read again and checked.
CHECK_LIMIT_S = 600.0

Answer = dict[str, Any]


class ImageCalls:
    """What `Client` can do with images."""

    def images(self) -> list[Answer]:
        found: list[Answer] = self._ask("GET", "/images", again=True)["images"]
        return found

    def add_image(self, image: str, archive: str | None = None) -> Answer:
        """`image` is NAME@sha256:DIGEST; `archive` the digest of a file sent before."""
        return self._ask("POST", "/images", json={"image": image, "archive": archive}, again=True)

    def remove_image(self, image: str) -> Answer:
        return self._ask("DELETE", "/images", params={"image": image})

    def put_image_archive(self, file: Path, sent: Callable[[int], None] = lambda size_bytes: None) -> str:
        """Sends what is not there yet; `sent` is told how many bytes are. Returns the file's digest."""
        with open(file, "rb") as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
            size_bytes = data.tell()
            there = self._arrived(digest)
            while not there["complete"]:
                offset = int(there["next_offset"])
                data.seek(offset)
                piece = data.read(PIECE_BYTES)
                there = self._put_piece(digest, offset, piece, last=offset + len(piece) >= size_bytes)
                sent(int(there["next_offset"]))
        return digest

    def _put_piece(self, digest: str, offset: int, piece: bytes, *, last: bool) -> Answer:
        asked = {"offset": offset, "last": last}
        path = f"/image-archives/{digest}"
        try:
            return self._ask("PUT", path, params=asked, content=piece, again=True, timeout=CHECK_LIMIT_S)
        except ApiProblem as problem:
            if problem.code != "archive_gap":
                raise
            return self._arrived(digest)  # it had arrived, and only the answer was lost

    def _arrived(self, digest: str) -> Answer:
        return self._ask("GET", f"/image-archives/{digest}/arrived", again=True)

    def _ask(self, method: str, path: str, **request: Any) -> Answer:
        raise NotImplementedError
