"""What jobs print, as agents push it: bounded files, one row of segments a run.

A run's bytes are numbered by the agent, so that a push that is repeated adds nothing. Old segments go when
there are too many: the end of a log is what people look for. For readers the runs of a job follow each other;
their position is the run's epoch and the byte within it, folded into one number they need not understand.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from gpunion.domain.ids import JobId

SEGMENT_LIMIT_BYTES = 4 * 1024**2
SEGMENTS_KEPT = 4  # 16 MiB a run
# Position = epoch * RUN_SPAN + byte: a run may print a tebibyte, and 8191 runs stay below 2**53.
RUN_SPAN = 2**40


class LogGap(Exception):
    """The push does not follow what is there; `expected` is the byte that is wanted next."""

    def __init__(self, expected: int) -> None:
        super().__init__(f"byte {expected} is the next one wanted")
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    next_position: int
    at_end: bool


class JobLogs:
    """Calls block on the disk; ask from a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._appending = threading.Lock()  # a push and its repetition may come at once

    def append(self, job_id: JobId, epoch: int, offset: int, data: bytes) -> int:
        """Adds what is new of `data`, which begins at byte `offset`; returns the next byte wanted."""
        with self._appending:
            return self._append(self._folder / job_id, epoch, offset, data)

    def end(self, job_id: JobId, epoch: int, offset: int) -> None:
        """All that the run printed is `offset` bytes; LogGap where that is not what is here."""
        folder = self._folder / job_id
        with self._appending:
            here = _end(_segments(folder, epoch))
            if here != offset:
                raise LogGap(here)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _end_mark(folder, epoch).touch(mode=0o600)

    def ended(self, job_id: JobId, epoch: int) -> bool:
        """Whether its machine has said that all of it is here."""
        return _end_mark(self._folder / job_id, epoch).exists()

    def read(self, job_id: JobId, position: int, limit_bytes: int) -> Piece:
        """From `position` on, over the end of a run into the next one that printed something."""
        folder = self._folder / job_id
        epochs = sorted({int(path.name.partition(".")[0]) for path in folder.glob("*.*.log")})
        epoch, offset = divmod(position, RUN_SPAN)
        for current in (known for known in epochs if known >= epoch):
            start = offset if current == epoch else 0
            last = current == epochs[-1]
            text, end = _read_run(folder, current, start, limit_bytes, whole=not last)
            if end > start or last:
                at_end = last and end >= _end(_segments(folder, current))
                return Piece(text, current * RUN_SPAN + end, at_end)
        return Piece("", position, True)

    def _append(self, folder: Path, epoch: int, offset: int, data: bytes) -> int:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        segments = _segments(folder, epoch)
        end = _end(segments)
        if offset > end:
            raise LogGap(end)
        fresh = memoryview(data)[end - offset :]
        while len(fresh):
            if not segments or segments[-1][1] >= SEGMENT_LIMIT_BYTES:
                segments.append((end, 0, folder / f"{epoch}.{end}.log"))
                _drop_oldest(segments)
            start, size, path = segments[-1]
            part = fresh[: SEGMENT_LIMIT_BYTES - size]
            with path.open("ab") as file:
                file.write(part)
            fresh = fresh[len(part) :]
            end += len(part)
            segments[-1] = (start, size + len(part), path)
        return end


def _read_run(folder: Path, epoch: int, offset: int, limit_bytes: int, *, whole: bool) -> tuple[str, int]:
    """`whole`: nothing more is expected, so half a character at the end is all there will be of it."""
    for start, size, path in _segments(folder, epoch):
        if offset >= start + size:
            continue
        begin = max(offset, start)
        with path.open("rb") as file:
            file.seek(begin - start)
            data = file.read(limit_bytes)
        if not whole or len(data) == limit_bytes:
            data = _whole_characters(data)
        missing = begin - offset
        note = f"[{missing} bytes are no longer kept]\n" if missing else ""
        return note + data.decode(errors="replace"), begin + len(data)
    return "", offset


def _whole_characters(data: bytes) -> bytes:
    """Without a character that is cut at the end; its rest comes with the next piece."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue  # inside a character
        length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return data[:-back] if length > back and len(data) > back else data
    return data


def _segments(folder: Path, epoch: int) -> list[tuple[int, int, Path]]:
    """(first byte, size, file), in order."""
    found = []
    for path in folder.glob(f"{epoch}.*.log"):
        try:
            found.append((int(path.name.split(".")[1]), path.stat().st_size, path))
        except FileNotFoundError:
            continue  # dropped by a push that came in between
    return sorted(found)


def _end_mark(folder: Path, epoch: int) -> Path:
    return folder / f"{epoch}.end"


def _end(segments: list[tuple[int, int, Path]]) -> int:
    return segments[-1][0] + segments[-1][1] if segments else 0


def _drop_oldest(segments: list[tuple[int, int, Path]]) -> None:
    while len(segments) > SEGMENTS_KEPT:
        os.unlink(segments.pop(0)[2])
