"""Rows of a CSV file with their line numbers, and what to say when one is wrong."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import NoReturn


class TraceError(Exception):
    """The file, the line, what was expected there, and what to do."""

    def __init__(self, what: str, *, next_step: str = "") -> None:
        super().__init__(what)
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a file; every cell is read through it, so that every mistake has a line number."""

    where: str
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        value = self.cells[column].strip()
        return value or self._refuse(column, "a name")

    def whole(self, column: str) -> int:
        value = self.cells[column].strip()
        try:
            found = int(value)
        except ValueError:
            return self._refuse(column, "a whole number, zero or more")
        return found if found >= 0 else self._refuse(column, "a whole number, zero or more")

    def number(self, column: str) -> float:
        value = self.cells[column].strip()
        try:
            found = float(value)
        except ValueError:
            return self._refuse(column, "a number, zero or more")
        if not isfinite(found) or found < 0:
            self._refuse(column, "a number, zero or more")
        return found

    def has(self, column: str) -> bool:
        return bool(self.cells.get(column, "").strip())

    def one_of(self, column: str, words: tuple[str, ...]) -> str:
        value = self.cells[column].strip()
        return value if value in words else self._refuse(column, " or ".join(words))

    def moment(self, column: str) -> datetime:
        """A date and time. One without a zone is the owners' local time and is kept as if it were UTC."""
        value = self.cells[column].strip()
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return self._refuse(column, "a date and time like 2020-05-01 00:19")
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def epoch_s(self, column: str) -> float:
        return self.moment(column).timestamp()

    def error(self, message: str) -> TraceError:
        return TraceError(f"{self.where}, line {self.line}: {message}", next_step="mend or remove that line")

    def _refuse(self, column: str, expected: str) -> NoReturn:
        raise self.error(f"{column}: expected {expected}, found {self.cells[column]!r}")


class InOrder:
    """Refuses a row that steps back in time within its series."""

    def __init__(self) -> None:
        self._latest_s: dict[str, float] = {}

    def checked(self, row: Row, column: str, series: str, at_s: float) -> float:
        if at_s < self._latest_s.get(series, at_s):
            found = row.cells[column]
            raise row.error(f"{column}: expected no earlier than {series}'s row before it, found {found!r}")
        self._latest_s[series] = at_s
        return at_s


def read_header(path: Path) -> tuple[str, ...]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), None)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from error
    if not header:
        raise TraceError(f"{path} is empty", next_step="a trace begins with a line that names its columns")
    return tuple(column.strip() for column in header)


def read_rows(path: Path) -> Iterator[Row]:
    """The rows after the header, one at a time; blank lines are passed over."""
    header = read_header(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            next(reader)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise TraceError(
                        f"{path}, line {reader.line_num}: expected {len(header)} cells "
                        f"({', '.join(header)}), found {len(cells)}",
                        next_step="mend or remove that line",
                    )
                yield Row(str(path), reader.line_num, dict(zip(header, cells, strict=True)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> TraceError:
    if isinstance(error, FileNotFoundError):
        return TraceError(f"there is no file {path}", next_step="look at the path")
    if isinstance(error, OSError):
        return TraceError(f"cannot read {path}: {error.strerror}", next_step="look at its permissions")
    return TraceError(f"{path} is not a CSV file in UTF-8: {error}", next_step="give a CSV trace")
