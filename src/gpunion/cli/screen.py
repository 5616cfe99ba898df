"""What people and programs see: tables and sentences, or JSON. Colour only on a terminal, and never alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import IO, Any

# The word is always there; the colour only helps to find it.
STYLES = {
    "running": "green", "succeeded": "green", "sharing": "green", "durable": "green", "ok": "green",
    "starting": "cyan", "leaving": "yellow", "migrating": "yellow", "stopping": "yellow", "pending": "yellow",
    "paused": "yellow", "reclaiming": "yellow", "reclaimed": "yellow", "warning": "yellow",
    "failed": "red", "cancelled": "magenta", "silent": "red", "left": "magenta", "missing": "red",
    "captured": "cyan",
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Table:
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def plain(self) -> list[str]:
        """Two blanks between columns, none at the end of a line."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[index]) for line in lines) for index in range(len(self.columns))]
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]


@dataclass(slots=True, kw_only=True)
class Screen:
    """`as_json`: stdout gets JSON and nothing else. Notes about the work itself always go to stderr."""

    out: IO[str] = field(default_factory=lambda: sys.stdout)
    err: IO[str] = field(default_factory=lambda: sys.stderr)
    as_json: bool = False

    def data(self, value: Any) -> None:
        """The answer to --json. The same shape whoever asks: docs/cli.md promises it."""
        self.line(json.dumps(value, indent=2, ensure_ascii=False))

    def record(self, value: Any) -> None:
        """One line of a stream of JSON objects."""
        self.line(json.dumps(value, ensure_ascii=False))

    def line(self, text: str = "") -> None:
        self.raw(text + "\n")

    def raw(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()

    def note(self, text: str) -> None:
        self.err.write(text + "\n")
        self.err.flush()

    def table(self, table: Table) -> None:
        if self.rich():
            _print_rich(table, self.out)
        else:
            self.raw("".join(f"{line}\n" for line in table.plain()))

    def rich(self) -> bool:
        return self.out.isatty() and _rich_is_here()


@cache
def _rich_is_here() -> bool:
    from importlib.util import find_spec

    return find_spec("rich") is not None


def _print_rich(table: Table, out: IO[str]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(table.columns):
        # Names and ids are what people copy: the last column is the one that gives way.
        shown.add_column(column, no_wrap=index < len(table.columns) - 1, overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(cell, style=STYLES.get(cell.lower(), "")) for cell in row))
    Console(file=out).print(shown)
