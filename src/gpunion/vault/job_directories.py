"""A directory's list as bytes, named by their hash; and blocks on their way, one after another in a stream.

    list     {"format":2} and the rows of its files (`vault.rows`), sorted by path
    stream   32 bytes of hash, 4 bytes of length (little endian), the block; again and again

Equal directories have equal lists, so nothing is sent or kept twice.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from blake3 import blake3

from gpunion.vault.rows import FileRows, encode_files, line_of, rows
from gpunion.vault.tree import BLOCK_SIZE_BYTES, BadTree, FileEntry, check_entries

FORMAT = 2
# About 400,000 files' or two terabytes' worth of list.
LIST_LIMIT_BYTES = 32 * 1024**2
PIECE_BYTES = 256 * 1024
_HEAD = struct.Struct("<32sI")
# So much of a stream is put into one request, give or take a block: a break costs no more than that.
BATCH_BYTES = 16 * 1024**2
BATCH_BLOCKS_MAX = 512
# What a receiver takes in one request.
STREAM_LIMIT_BYTES = BATCH_BYTES + BLOCK_SIZE_BYTES + BATCH_BLOCKS_MAX * _HEAD.size


class BadStream(ValueError):
    """This is not a stream of blocks, or a block is not what its name says."""


def encode_list(files: Iterable[FileEntry]) -> bytes:
    return b"".join((line_of({"format": FORMAT}), *encode_files(_in_order(files))))


def decode_list(data: bytes | BinaryIO) -> tuple[FileEntry, ...]:
    """Row by row. BadTree for anything that cannot be acted on safely, or is not written in the one way."""
    source = io.BytesIO(data) if isinstance(data, bytes) else data
    found, last = FileRows(), ""
    for number, line, row in rows(source.readline):
        if line != line_of(row):
            raise BadTree(
                f"row {number} is not written in the one way there is; equal lists must have equal names"
            )
        if number == 1:
            if row != {"format": FORMAT}:
                raise BadTree(f"row 1 is not that of a list of format {FORMAT}, which this version reads")
            continue
        found.take(number, row)
        if row[0] == "f":
            if row[1] < last:  # what is there twice is told by who knows of all
                raise BadTree(f"row {number} is not written in the one way there is: sorted by path")
            last = row[1]
    if source.tell() == 0:
        raise BadTree("this is not a directory's list: it is empty")
    files = found.files()
    check_entries(files)
    return files


def encode_record(head: dict[str, Any], files: Iterable[FileEntry]) -> Iterator[bytes]:
    """A list among whatever else is said: the rows of one record of JSON, piece by piece."""
    opening = line_of({**head, "format": FORMAT, "files": []}).rstrip(b"\n")
    yield opening.removesuffix(b"]}")
    for number, line in enumerate(encode_files(_in_order(files))):
        yield (b"," if number else b"") + line
    yield b"]}"


def decode_record(record: Any) -> tuple[FileEntry, ...]:
    found = FileRows()
    try:
        if record["format"] != FORMAT:
            raise BadTree(f"a list of format {record['format']!r}; this version reads {FORMAT}")
        for number, row in enumerate(record["files"], start=1):
            found.take(number, row)
    except (KeyError, TypeError) as error:
        raise BadTree(f"this is not a directory's list: {error}") from error
    files = found.files()
    check_entries(files)
    return files


def digest_of_file(file: BinaryIO) -> str:
    """From where it is to its end."""
    digest = blake3()
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


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


def _in_order(files: Iterable[FileEntry]) -> list[FileEntry]:
    return sorted(files, key=lambda entry: entry.path)
