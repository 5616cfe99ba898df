"""What people and programs see: tables and sentences, or JSON. Colour only on a terminal, and never alone."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from typing import IO, Any

from gpunion.cli.output.cells import filled, folded, longest_part, width_of

# The word is always there; the colour only helps to find it.
STYLES = {
    "running": "green", "succeeded": "green", "sharing": "green", "durable": "green", "ok": "green",
    "starting": "cyan", "leaving": "yellow", "migrating": "yellow", "stopping": "yellow", "pending": "yellow",
    "between": "yellow", "finishing": "cyan",
    "paused": "yellow", "reclaiming": "yellow", "reclaimed": "yellow", "warning": "yellow",
    "failed": "red", "cancelled": "magenta", "silent": "red", "left": "magenta", "missing": "red",
    "captured": "cyan",
}  # fmt: skip


# What a terminal would obey, and what turns the order of letters round: whoever said it, it is only shown.
# Line breaks and tabs are ours, and are looked for where they are not.
_OBEYED = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
OBEYED = re.compile(f"[{_OBEYED}]")
BREAKS = re.compile(f"[\t\n{_OBEYED}]")
# Of what programs print, a terminal is given colours, bars that are drawn anew, and the text.
HARMLESS = re.compile(f"(\x1b\\[[0-9;]{{0,32}}[mKA]|[\r\b])|[{_OBEYED}]")
# JSON's own escapes say the same.
_UNESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")

GAP = 2  # blanks between two columns
NARROW = 10  # no column is folded to less: that is as long as a phase's name
LONG_WORD = 12  # longer ones are broken where they have no room; numbers, times and dates are no longer
USUAL_WIDTH = 80  # of a screen that does not say
STDOUT, STDERR = 1, 2


@dataclass(slots=True, kw_only=True)
class Table:
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    folds_first: bool = False  # what comes first is not for copying: it gives way like the others
    spare: Sequence[str] = ()  # names of columns that are left out, in this order, where nothing else helps

    def plain(self, room: int | None = None) -> list[str]:
        return [line for lines in self.by_row(room) for line in lines]

    def by_row(self, room: int | None = None) -> list[list[str]]:
        """The lines of each row, first those of the names of columns. Two blanks between columns, none at the
        end of a line. `room`: what a line may take."""
        widths = self.widths(room)
        return [
            [(" " * GAP).join(line).rstrip() for line in _folded(row, widths)]
            for row in (self.columns, *self.rows)
        ]

    def widths(self, room: int | None) -> list[int]:
        """The widest columns give way where a line would not fit; names and ids come first and stay whole,
        unless the table says otherwise. Where that is not enough, each may become as narrow as its longest
        word, and in the end its longest words are broken."""
        cells = list(zip(self.columns, *self.rows, strict=True))
        widths = [max(map(width_of, column)) for column in cells]
        words = [max(map(longest_part, column)) for column in cells]
        usual = [max(len(name), NARROW, word) for name, word in zip(self.columns, words, strict=True)]
        broken = [
            min(word, max(LONG_WORD, *map(len, name.split())))
            for word, name in zip(words, self.columns, strict=True)
        ]
        first = 0 if self.folds_first else 1
        for least in (usual, words, broken):
            while room is not None and self._line(widths) > room:
                able = [index for index in range(first, len(widths)) if widths[index] > least[index]]
                if not able:
                    break
                widths[max(able, key=lambda index: widths[index])] -= 1
        return widths

    def fits(self, room: int | None) -> bool:
        """Whether each row has a line to itself."""
        return room is None or self._line(self.widths(None)) <= room

    def fitting(self, room: int | None) -> Table:
        """With as many of its columns as a line has room for."""
        table = self
        for name in self.spare:
            if room is None or table._line(table.widths(0)) <= room:
                break
            table = table.without(name)
        return table

    def without(self, name: str) -> Table:
        at = self.columns.index(name)
        columns, *rows = ([*row[:at], *row[at + 1 :]] for row in (self.columns, *self.rows))
        return Table(columns=columns, rows=[*rows], folds_first=self.folds_first, spare=self.spare)

    @staticmethod
    def _line(widths: Sequence[int]) -> int:
        return sum(widths) + GAP * (len(widths) - 1)


def _folded(row: Sequence[str], widths: Sequence[int]) -> Iterator[list[str]]:
    """The lines of a row, each as the parts of its cells."""
    cells = (folded(cell, width) for cell, width in zip(row, widths, strict=True))
    for line in zip_longest(*cells, fillvalue=""):
        yield [filled(part, width) for part, width in zip(line, widths, strict=True)]


@dataclass(slots=True, kw_only=True)
class Screen:
    """`as_json`: stdout gets JSON and nothing else. Notes about the work itself always go to stderr."""

    out: IO[str] = field(default_factory=lambda: sys.stdout)
    err: IO[str] = field(default_factory=lambda: sys.stderr)
    as_json: bool = False
    mend: Callable[[str], str] = str  # what is said to people, made to fit how they called us

    def __post_init__(self) -> None:
        for stream in (self.out, self.err):
            # What this terminal has no letters for is shown by its number instead of being a reason to end.
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="backslashreplace")

    def data(self, value: Any) -> None:
        """The answer to --json. The same shape whoever asks: docs/cli.md promises it."""
        self.line(_json(value, self.out, indent=2))

    def record(self, value: Any) -> None:
        """One line of a stream of JSON objects."""
        self.line(_json(value, self.out))

    def line(self, text: str = "") -> None:
        self._write((text if self.as_json else self.mend(text)) + "\n")

    def program(self, text: str) -> None:
        """What a program printed: as it came into a file or a pipe, and without what could do more to a
        terminal than colour it or draw a bar anew."""
        if self.out.isatty():
            text = HARMLESS.sub(lambda found: found[1] or " ", text)
        self.out.write(text)
        self.out.flush()

    def note(self, text: str) -> None:
        self.err.write(OBEYED.sub(" ", text if self.as_json else self.mend(text)) + "\n")
        self.err.flush()

    def _write(self, text: str) -> None:
        self.out.write(OBEYED.sub(" ", text))
        self.out.flush()

    def note_data(self, value: Any) -> None:
        """What went wrong, for programs."""
        self.note(_json(value, self.err))

    def table(self, table: Table) -> None:
        rows = [[BREAKS.sub(" ", cell) for cell in row] for row in table.rows]
        shown = replace(table, rows=[*rows]).fitting(self.room())
        if self.rich():
            _print_rich(shown, self.out, self.room())
        else:
            self._write("".join(f"{line}\n" for line in shown.plain(self.room())))
        self.say_what_has_no_room(table.columns, shown)

    def say_what_has_no_room(self, columns: Sequence[str], shown: Table) -> None:
        without = [name for name in columns if name not in shown.columns]
        if without:
            self.line(f"No room for {', '.join(without)}. Next: --json, or a wider terminal")

    def room(self) -> int | None:
        """How wide a line may be; None where nobody looks at it but programs."""
        return screen_width() if self.out.isatty() else None

    def rich(self) -> bool:
        return self.out.isatty() and _rich_is_here()


def _json(value: Any, stream: IO[str], indent: int | None = None) -> str:
    """In letters that the stream has; JSON's own escapes say the others."""
    has_all = (getattr(stream, "encoding", None) or "utf-8").lower() in ("utf-8", "utf8")
    text = json.dumps(value, indent=indent, ensure_ascii=not has_all)
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def screen_width(stream: int = STDOUT) -> int:
    """As `shutil` finds it, which takes long to load: what the environment says, then the terminal."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(stream).columns or USUAL_WIDTH
    except OSError:
        return USUAL_WIDTH


@cache
def _rich_is_here() -> bool:
    from importlib.util import find_spec

    return find_spec("rich") is not None


def _print_rich(table: Table, out: IO[str], room: int | None) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out)
    widths = table.widths(room)
    for number, row in enumerate((table.columns, *table.rows)):
        styles = ["bold" if not number else STYLES.get(cell.lower(), "") for cell in row]
        for line in _folded(row, widths):
            shown = Text(" " * GAP).join(map(Text, line, styles))
            shown.rstrip()
            console.print(shown, soft_wrap=True)
