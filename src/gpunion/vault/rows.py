"""Files of a directory as rows, one a line, so that a long list is read and written piece by piece.

    ["f", path, mode, size in bytes, [block, ...]]   a file, with the first of its blocks
    ["b", [block, ...]]                              more of them; a row has ROW_BLOCKS if there are as many

Every row is a line of JSON in ASCII, written in one way only. Names that are not UTF-8 travel as Python's
escaped surrogates do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpunion.limits import SIZE_MAX_BYTES
from gpunion.vault.tree import (
    FILES_MAX,
    HASH_PATTERN,
    PATH_LIMIT_BYTES,
    BadTree,
    FileEntry,
    blocks_of,
)

# Of two gigabytes of a file. A row is read as a whole: this bounds how long one may be.
ROW_BLOCKS = 512
ROW_LIMIT_BYTES = 64 * 1024
MODE_MAX = 0o177777
# So many rows are read before others have their turn: whoever reads a long list keeps the rest waiting else.
ROWS_AT_A_TIME = 128


class BadRow(BadTree):
    """Which row, which field of it, and what is wrong with that."""


def line_of(row: Any) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def encode_files(files: Iterable[FileEntry]) -> Iterator[bytes]:
    for number, entry in enumerate(files):
        _take_turns(number)
        first = list(entry.blocks[:ROW_BLOCKS])
        yield line_of(["f", entry.path, entry.mode, entry.size_bytes, first])
        yield from encode_blocks(entry.blocks[ROW_BLOCKS:])


def encode_blocks(names: tuple[str, ...]) -> Iterator[bytes]:
    for at in range(0, len(names), ROW_BLOCKS):
        yield line_of(["b", list(names[at : at + ROW_BLOCKS])])


def rows(lines: Callable[[int], bytes]) -> Iterator[tuple[int, bytes, Any]]:
    """Number, line and content of each; `lines` reads one, at most so many bytes of it. BadRow."""
    number = 0
    while line := lines(ROW_LIMIT_BYTES + 1):
        number += 1
        _take_turns(number)
        if len(line) > ROW_LIMIT_BYTES:
            raise BadRow(f"row {number} has more than {ROW_LIMIT_BYTES} bytes")
        try:
            yield number, line, json.loads(line.decode("ascii"), parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise BadRow(f"row {number} is no JSON: {error}") from error


class FileRows:
    """Takes rows as they come, and no more of them than what they say of themselves allows."""

    def __init__(self) -> None:
        self._files: list[FileEntry] = []
        self._open: tuple[str, int, int] | None = (
            None  # path, mode, size of one whose blocks are still coming
        )
        self._blocks: list[str] = []

    def take(self, number: int, row: Any) -> None:
        match row:
            case ["f", path, mode, size_bytes, blocks]:
                self._end(number)
                self._begin(number, path, mode, size_bytes, blocks)
            case ["b", blocks]:
                if self._open is None:
                    raise BadRow(f"row {number} has blocks of no file")
                self._more(number, self._open[2], blocks)
            case _:
                raise BadRow(f"row {number} is neither a file nor blocks of one")

    def files(self) -> tuple[FileEntry, ...]:
        """When all rows have come."""
        self._end(None)
        return tuple(self._files)

    def _begin(self, number: int, path: Any, mode: Any, size_bytes: Any, blocks: Any) -> None:
        if len(self._files) >= FILES_MAX:
            raise BadRow(f"row {number}: more than {FILES_MAX} files")
        if not isinstance(path, str) or len(path) > PATH_LIMIT_BYTES:
            raise BadRow(f"row {number}: path is no text of at most {PATH_LIMIT_BYTES} bytes")
        whole(number, "mode", mode, MODE_MAX)
        whole(number, "size_bytes", size_bytes, SIZE_MAX_BYTES)
        self._open = (path, mode, size_bytes)
        self._more(number, size_bytes, blocks)

    def _more(self, number: int, size_bytes: int, blocks: Any) -> None:
        if not isinstance(blocks, list) or len(blocks) > ROW_BLOCKS:
            raise BadRow(f"row {number}: blocks are no list of at most {ROW_BLOCKS}")
        left = blocks_of(size_bytes) - len(self._blocks)
        if len(blocks) != min(left, ROW_BLOCKS) or (self._blocks and not blocks):
            raise BadRow(f"row {number}: {len(blocks)} blocks, where {size_bytes} bytes have {left} more")
        self._blocks += block_names(number, blocks)

    def _end(self, number: int | None) -> None:
        if self._open is None:
            return
        path, mode, size_bytes = self._open
        if len(self._blocks) != blocks_of(size_bytes):
            raise BadRow(f"row {number or 'after the last'}: blocks of {path[:80]!r} are missing")
        entry = FileEntry(path=path, mode=mode, size_bytes=size_bytes, blocks=tuple(self._blocks))
        self._files.append(entry)
        self._open, self._blocks = None, []


def block_names(number: int, blocks: list[Any]) -> list[str]:
    if not all(isinstance(block, str) and HASH_PATTERN.fullmatch(block) for block in blocks):
        raise BadRow(f"row {number}: blocks name one that cannot be")
    return blocks


def whole(number: int, name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise BadRow(f"row {number}: {name} is no whole number from 0 to {most}")
    return value


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _take_turns(number: int) -> None:
    if number % ROWS_AT_A_TIME == 0:
        time.sleep(0)  # lets whoever waits for the interpreter have it
