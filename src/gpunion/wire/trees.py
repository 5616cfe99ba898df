"""A directory's list as bytes, named by their hash; and blocks on their way, one after another in a stream.

    list     {"format": 1, "files": [[path, mode, size in bytes, [block, ...]], ...]}, sorted by path
    stream   32 bytes of hash, 4 bytes of length (little endian), the block; again and again

Equal directories have equal lists, so nothing is sent or kept twice. Names that are not UTF-8 travel as
Python's escaped surrogates do.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from blake3 import blake3

from gpunion.domain.tree import BLOCK_SIZE_BYTES, BadTree, FileEntry, check_entries

FORMAT = 1
# About 400,000 files' or two terabytes' worth of list.
LIST_LIMIT_BYTES = 32 * 1024**2
_HEAD = struct.Struct("<32sI")
# So much of a stream is put into one request, give or take a block: a break costs no more than that.
BATCH_BYTES = 16 * 1024**2
BATCH_BLOCKS_MAX = 512
# What a receiver takes in one request.
STREAM_LIMIT_BYTES = BATCH_BYTES + BLOCK_SIZE_BYTES + BATCH_BLOCKS_MAX * _HEAD.size


class BadStream(ValueError):
    """This is not a stream of blocks, or a block is not what its name says."""


def encode_list(files: Iterable[FileEntry]) -> bytes:
    return json.dumps(encode_record(files), separators=(",", ":")).encode()


def encode_record(files: Iterable[FileEntry]) -> dict[str, Any]:
    rows = [
        [entry.path, entry.mode, entry.size_bytes, list(entry.blocks)]
        for entry in sorted(files, key=lambda entry: entry.path)
    ]
    return {"format": FORMAT, "files": rows}


def decode_list(data: bytes) -> tuple[FileEntry, ...]:
    """BadTree for anything that cannot be acted on safely."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadTree(f"this is not a directory's list: {error}") from error
    return decode_record(record)


def decode_record(record: Any) -> tuple[FileEntry, ...]:
    """The same from JSON that was read already, among whatever else it says."""
    try:
        if record["format"] != FORMAT:
            raise BadTree(f"a list of format {record['format']!r}; this version reads {FORMAT}")
        files = tuple(_entry(*row) for row in record["files"])
    except (KeyError, TypeError) as error:
        raise BadTree(f"this is not a directory's list: {error}") from error
    check_entries(files)
    return files


def digest_of(data: bytes) -> str:
    """What blocks and lists are called by."""
    return blake3(data).hexdigest()


def frame(data: bytes, name: str) -> bytes:
    return _HEAD.pack(bytes.fromhex(name), len(data)) + data


class Unframing:
    """Blocks out of a stream that arrives in pieces of any size; holds no more than one of them."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[str, bytes]]:
        """Each verified. Raises BadStream."""
        self._buffer += piece
        while len(self._buffer) >= _HEAD.size:
            name, size_bytes = _HEAD.unpack_from(self._buffer)
            if size_bytes > BLOCK_SIZE_BYTES:
                raise BadStream(f"a block of {size_bytes} bytes; {BLOCK_SIZE_BYTES} is the most")
            end = _HEAD.size + size_bytes
            if len(self._buffer) < end:
                return
            data = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            if blake3(data).digest() != name:
                raise BadStream(f"the bytes sent as {name.hex()[:12]}… are others")
            yield name.hex(), data

    def close(self) -> None:
        """BadStream where it ends within a block."""
        if self._buffer:
            raise BadStream("the stream of blocks was cut short")


def batches(names: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """Names of blocks, with their sizes, in groups that fit one request."""
    batch: list[str] = []
    room_bytes = BATCH_BYTES
    for name, size_bytes in names:
        batch.append(name)
        room_bytes -= size_bytes
        if room_bytes <= 0 or len(batch) >= BATCH_BLOCKS_MAX:
            yield batch
            batch, room_bytes = [], BATCH_BYTES
    if batch:
        yield batch


def _entry(path: str, mode: int, size_bytes: int, blocks: list[str]) -> FileEntry:
    whole = all(isinstance(number, int) for number in (mode, size_bytes))
    if not isinstance(path, str) or not whole or not all(isinstance(block, str) for block in blocks):
        raise BadTree("a row is a path, a mode, a size and blocks")
    return FileEntry(path=path, mode=mode, size_bytes=size_bytes, blocks=tuple(blocks))
