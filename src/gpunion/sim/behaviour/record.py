"""What the behaviour of many runs was when it was recorded, in a file, and where a run differs from it.

The file has a line a run: its name (a seed, or `campus`), the digest of its world and that of its core. The
lines behind the digests of the first few runs lie packed beside it, so that a difference can be shown.
"""

from __future__ import annotations

import itertools
import json
import lzma
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gpunion.sim.behaviour.digest import Behaviour

KEPT_RUNS = 12  # whose lines are packed: some 20 kB each
LINES_SUFFIX = ".lines.xz"
HEAD = "# run, digest of what happened in its world, digest of what its engines decided"
# Of a differing line: from so much before the first difference to so much after it.
SHOWN_BEFORE, SHOWN_AFTER = 160, 240
NONE_LEFT = "(nothing more)"


class UnreadableRecord(ValueError):
    """The file is no record of behaviour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    run: str
    digests: tuple[str, ...]  # which of both differ: "world", "core"
    part: str = ""  # the one whose first differing line is shown
    number: int = 0  # of that line, counted from 1; 0: no lines were kept
    recorded: str = ""
    now: str = ""

    def text(self) -> str:
        head = f"run {self.run}: {' and '.join(self.digests)} not as recorded"
        if not self.number:
            return f"{head}; its lines were not kept"
        where = f"first in line {self.number} of the {self.part}"
        return f"{head}; {where}:\n  recorded {self.recorded}\n  now      {self.now}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    runs: int
    differing: tuple[Difference, ...] = ()

    def shown(self) -> dict[str, object]:
        return {"compared": self.runs, "differing": [asdict(difference) for difference in self.differing]}

    def text(self) -> str:
        """One difference is shown whole: the others mostly have the same cause."""
        if not self.differing:
            return f"behaviour: all {self.runs} runs as recorded"
        told = min(self.differing, key=lambda difference: difference.number == 0)
        names = ", ".join(difference.run for difference in self.differing)
        return f"behaviour: {len(self.differing)} of {self.runs} runs differ: {names}\n{told.text()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourRecord:
    runs: Mapping[str, Behaviour]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(int(name) for name in self.runs if name.isdecimal())

    @property
    def with_lines(self) -> frozenset[str]:
        return frozenset(name for name, behaviour in self.runs.items() if behaviour.core_lines)

    def difference(self, run: str, now: Behaviour) -> Difference | None:
        """None where the run is as recorded. What was decided is shown first: it causes what happens."""
        then = self.runs[run]
        parts = (
            ("core", then.core, now.core, then.core_lines, now.core_lines),
            ("world", then.world, now.world, then.world_lines, now.world_lines),
        )
        differing = tuple(name for name, before, after, _, _ in parts if before != after)
        if not differing:
            return None
        for name, _, _, before_lines, after_lines in parts:
            if name in differing and before_lines and after_lines and before_lines != after_lines:
                return _first_difference(run, differing, name, before_lines, after_lines)
        return Difference(run=run, digests=differing)


def write_record(path: Path, runs: Mapping[str, Behaviour]) -> None:
    rows = [HEAD, *(f"{name} {behaviour.world} {behaviour.core}" for name, behaviour in runs.items())]
    path.write_text("\n".join(rows) + "\n")
    lines = {
        name: {"world": behaviour.world_lines, "core": behaviour.core_lines}
        for name, behaviour in runs.items()
        if behaviour.core_lines
    }
    packed = lzma.compress(json.dumps(lines).encode(), preset=9 | lzma.PRESET_EXTREME)
    lines_beside(path).write_bytes(packed)


def read_record(path: Path) -> BehaviourRecord:
    """The lines may be missing: then a difference is found, and not shown."""
    try:
        rows = [row.split() for row in path.read_text().splitlines() if row and not row.startswith("#")]
        digests = {name: (world, core) for name, world, core in rows}
        packed = lines_beside(path)
        lines = json.loads(lzma.decompress(packed.read_bytes())) if packed.exists() else {}
    except (ValueError, lzma.LZMAError) as error:
        raise UnreadableRecord(f"{path} is no record of behaviour: {error}") from error
    return BehaviourRecord(
        runs={
            name: Behaviour(
                world=world,
                core=core,
                world_lines=tuple(lines.get(name, {}).get("world", ())),
                core_lines=tuple(lines.get(name, {}).get("core", ())),
            )
            for name, (world, core) in digests.items()
        }
    )


def lines_beside(path: Path) -> Path:
    return path.with_name(path.name + LINES_SUFFIX)


def _first_difference(
    run: str, digests: tuple[str, ...], part: str, before: tuple[str, ...], after: tuple[str, ...]
) -> Difference:
    pairs = itertools.zip_longest(before, after, fillvalue=NONE_LEFT)
    number, then, now = next(
        (number, then, now) for number, (then, now) in enumerate(pairs, start=1) if then != now
    )
    begin, end = _around(then, now)
    return Difference(
        run=run,
        digests=digests,
        part=part,
        number=number,
        recorded=_shown(then, begin, end),
        now=_shown(now, begin, end),
    )


def _around(then: str, now: str) -> tuple[int, int]:
    same = next(
        (at for at, (a, b) in enumerate(zip(then, now, strict=False)) if a != b), min(len(then), len(now))
    )
    return max(0, same - SHOWN_BEFORE), same + SHOWN_AFTER


def _shown(line: str, begin: int, end: int) -> str:
    """Who and when stay at the front; in the middle what is the same in both may be left out."""
    head = " ".join(line.split(" ", 2)[:2])
    if begin <= len(head):
        return line[:end] + ("..." if end < len(line) else "")
    return f"{head} ...{line[begin:end]}" + ("..." if end < len(line) else "")
