"""Directories to and from a coordinator: lists and blocks, as docs/http-api.md has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from gpunion.sdk.errors import NotACoordinator, Unreachable

# A batch is a few seconds' work for a slow disk; a busy one may take longer.
TRANSFER_LIMIT_S = 120.0
PIECE_BYTES = 256 * 1024
# The coordinator may be restarting.
RESUME_PAUSES_S = (0.2, 0.8, 2.0)

Answer = dict[str, Any]


class TreeCalls:
    """What `Client` can do with directories. A block or a list is named by the BLAKE3 of its bytes."""

    url: str

    def offer_tree(self, digest: str, listing: bytes) -> Answer:
        """{digest, kept, missing}: send the missing blocks and offer it again, until it is kept."""
        return self._ask("PUT", f"/trees/{digest}", content=listing, again=True, timeout=TRANSFER_LIMIT_S)

    def put_blocks(
        self, blocks: Mapping[str, bytes], sent: Callable[[int], None] = lambda size_bytes: None
    ) -> Answer:
        """One batch; `sent` is told of bytes as they leave, and of less than nothing when they go again."""
        from gpunion.vault.job_directories import frame

        body = _Pieces(b"".join(frame(data, name) for name, data in blocks.items()), sent)
        try:
            return self._ask("POST", "/blocks", content=body, again=True, timeout=TRANSFER_LIMIT_S)
        finally:
            body.forget()

    def put_tree(self, files: Mapping[str, bytes]) -> str:
        """A small directory out of memory; returns the digest to submit with as `bundle`."""
        import stat

        from gpunion.vault.job_directories import digest_of, encode_list
        from gpunion.vault.tree import BLOCK_SIZE_BYTES, FileEntry

        blocks: dict[str, bytes] = {}
        entries = []
        for path, data in files.items():
            pieces = [data[at : at + BLOCK_SIZE_BYTES] for at in range(0, len(data), BLOCK_SIZE_BYTES)]
            names = tuple(digest_of(piece) for piece in pieces)
            blocks |= dict(zip(names, pieces, strict=True))
            mode = stat.S_IFREG | 0o644
            entries.append(FileEntry(path=path, size_bytes=len(data), mode=mode, blocks=names))
        listing = encode_list(entries)
        digest = digest_of(listing)
        for name in self.offer_tree(digest, listing)["missing"]:
            self.put_blocks({name: blocks[name]})
        if not self.offer_tree(digest, listing)["kept"]:
            raise NotACoordinator(self.url, 200)
        return digest

    def output(self, job_id: str) -> Answer:
        """{job_id, checkpoint_id, final, step, format, files}: what it made, or ApiProblem `no_output`."""
        return self._ask("GET", f"/jobs/{job_id}/output", again=True, timeout=TRANSFER_LIMIT_S)

    def output_blocks(
        self, job_id: str, checkpoint_id: str, names: Sequence[str]
    ) -> Iterator[tuple[str, bytes]]:
        """A batch of an output's blocks, each verified, as they arrive; a break costs what was on its way."""
        left = dict.fromkeys(names)
        for pause_s in (*RESUME_PAUSES_S, None):
            body = {"checkpoint_id": checkpoint_id, "blocks": list(left)}
            try:
                for name, data in self._unframed(f"/jobs/{job_id}/output/blocks", body):
                    left.pop(name, None)
                    yield name, data
                return
            except Unreachable:
                if pause_s is None:
                    raise
            time.sleep(pause_s)

    def _unframed(self, path: str, body: Answer) -> Iterator[tuple[str, bytes]]:
        from gpunion.vault.job_directories import BadStream, Unframing

        unframing = Unframing()
        try:
            with self._streamed("POST", path, json=body, timeout=TRANSFER_LIMIT_S) as pieces:
                for piece in pieces:
                    yield from unframing.feed(piece)
            unframing.close()
        except BadStream as error:
            raise Unreachable(self.url, str(error)) from error

    # --- the client's own ------------------------------------------------------------------------

    def _ask(self, method: str, path: str, **request: Any) -> Answer:
        raise NotImplementedError

    def _streamed(self, method: str, path: str, **request: Any) -> AbstractContextManager[Iterator[bytes]]:
        raise NotImplementedError


class _Pieces:
    """A body in small pieces, so that somebody can watch it go. May be sent again."""

    def __init__(self, data: bytes, sent: Callable[[int], None]) -> None:
        self._data = data
        self._sent = sent
        self._told = 0

    def forget(self) -> None:
        """The HTTP library holds on to a body for a while, and megabytes add up."""
        self._data = b""

    def __iter__(self) -> Iterator[bytes]:
        self._sent(-self._told)
        self._told = 0
        for at in range(0, len(self._data), PIECE_BYTES):
            piece = self._data[at : at + PIECE_BYTES]
            yield piece
            self._told += len(piece)
            self._sent(len(piece))
