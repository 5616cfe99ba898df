"""Directories to and from a coordinator: lists and blocks, as docs/http-api.md has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from gpunion.sdk.errors import NotACoordinator

# A batch is a few seconds' work for a slow disk; a busy one may take longer.
TRANSFER_LIMIT_S = 120.0
PIECE_BYTES = 256 * 1024

Answer = dict[str, Any]


class Response(Protocol):
    """The part of an HTTP library's answer that is needed here."""

    status_code: int

    @property
    def content(self) -> bytes: ...

    def json(self) -> Any: ...


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
        from gpunion.wire.trees import frame

        stream = b"".join(frame(data, name) for name, data in blocks.items())
        body = _Pieces(stream, sent)
        return self._ask("POST", "/blocks", content=body, again=True, timeout=TRANSFER_LIMIT_S)

    def put_tree(self, files: Mapping[str, bytes]) -> str:
        """A small directory out of memory; returns the digest to submit with as `bundle`."""
        import stat

        from gpunion.domain.tree import BLOCK_SIZE_BYTES, FileEntry
        from gpunion.wire.trees import digest_of, encode_list

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
        """One batch of an output's blocks, each verified."""
        from gpunion.wire.trees import BadStream, Unframing

        body = {"checkpoint_id": checkpoint_id, "blocks": list(names)}
        path = f"/jobs/{job_id}/output/blocks"
        response = self._send("POST", path, json=body, again=True, timeout=TRANSFER_LIMIT_S)
        unframing = Unframing()
        try:
            yield from unframing.feed(response.content)
            unframing.close()
        except BadStream as error:
            raise NotACoordinator(self.url, response.status_code) from error

    # --- the client's own ------------------------------------------------------------------------

    def _ask(self, method: str, path: str, **request: Any) -> Answer:
        raise NotImplementedError

    def _send(self, method: str, path: str, *, again: bool = False, **request: Any) -> Response:
        raise NotImplementedError


class _Pieces:
    """A body in small pieces, so that somebody can watch it go. May be sent again."""

    def __init__(self, data: bytes, sent: Callable[[int], None]) -> None:
        self._data = data
        self._sent = sent
        self._told = 0

    def __iter__(self) -> Iterator[bytes]:
        self._sent(-self._told)
        self._told = 0
        for at in range(0, len(self._data), PIECE_BYTES):
            piece = self._data[at : at + PIECE_BYTES]
            yield piece
            self._told += len(piece)
            self._sent(len(piece))
