"""Whether a database is opened, refused, or opened with something left out.

A refusal changes nothing, so it may be repeated as often as a service manager likes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import Table

from gpunion.ports.database import Mend, StoreDamaged

from . import tables
from .findings import Findings, judge
from .inspection import Sight, look
from .reached import ReachedFile
from .seals import Key, Row, key_of

_BESIDE = ("", "-wal", "-shm", "-journal")
_SAID_AT_MOST = 4


@dataclass(slots=True)
class Opened:
    """What the coordinator goes on with."""

    sight: Sight = field(default_factory=Sight)
    findings: Findings = field(default_factory=Findings)
    reached: int = 0

    @property
    def leader(self) -> Row | None:
        return self.sight.leader

    @property
    def commits(self) -> int:
        """Never a number that was used before, also where commits were lost."""
        return max(self.reached, 0 if self.leader is None else self.leader["commits"])

    def holds(self) -> Mapping[str, tuple[Mapping[Key, int], int]]:
        missing = self.findings.missing
        return {name: (seen.seals, missing.get(name, 0)) for name, seen in self.sight.seen.items()}

    def to_drop(self, *, before_s: float) -> list[tuple[Table, Key]]:
        keys = self.sight.seen.get(tables.idempotency.name)
        old = [] if keys is None else [row for row in keys.good if row["at_s"] < before_s]
        rows = [(tables.idempotency, key_of(tables.idempotency, row)) for row in old]
        return [*self.findings.to_drop, *rows]


class Opening:
    def __init__(self, path: Path, *, mend: Mend, witnesses: Sequence[Path]) -> None:
        self._path = path
        self._mend = mend
        self._witnesses = witnesses
        self._reached = ReachedFile(path)

    def look(self) -> Opened:
        """StoreDamaged where nobody may go on unasked."""
        try:
            return self._look()
        except StoreDamaged:
            if self._mend is not Mend.BEGIN_ANEW:
                raise
            self._put_aside()
            return Opened()

    def found(self) -> Findings:
        """Of the database as it is now, which was opened before."""
        sight = look(self._path)
        return Findings() if sight is None else judge(sight)

    def _look(self) -> Opened:
        there = self._path.exists() and self._path.stat().st_size > 0
        sight = look(self._path) if there else None
        if sight is None or sight.unused:
            self._refuse_an_empty_one(there)
            return Opened()
        findings = judge(sight)
        opened = Opened(sight=sight, findings=findings, reached=self._reached.read() or 0)
        if sight.leader is None:
            findings.refusals.insert(0, "who leads and what it should hold cannot be read")
        elif opened.reached > sight.leader["commits"]:
            lost = opened.reached - sight.leader["commits"]
            findings.refusals.insert(
                0,
                f"the last {lost} of its {opened.reached} commits are missing: its log "
                f"{self._path.name}-wal was lost or cut, or it is an older copy that was put in its place",
            )
        findings.saved = replace(
            findings.saved,
            left_out=(*findings.saved.left_out, *(f"accepted: {one}" for one in findings.refusals)),
        )
        if findings.refusals and self._mend is not Mend.ACCEPT_LOSS:
            said = "; ".join(findings.refusals[:_SAID_AT_MOST])
            more = len(findings.refusals) - _SAID_AT_MOST
            raise StoreDamaged(
                f"{self._path} has lost something: {said}{f'; and {more} more' if more > 0 else ''}",
                readable=True,
            )
        return opened

    def _refuse_an_empty_one(self, there: bool) -> None:
        found = [one.name for one in (self._reached.path, *self._witnesses) if one.exists()]
        if found:
            what = "is empty" if there or self._path.exists() else "is not there"
            raise StoreDamaged(
                f"{self._path} {what}, but there was a campus here: {' and '.join(found)} beside it tell so",
                readable=False,
            )

    def _put_aside(self) -> None:
        number = 1
        while any(self._path.with_name(f"{self._path.name}.aside-{number}{end}").exists() for end in _BESIDE):
            number += 1
        for end in _BESIDE:
            one = self._path.with_name(self._path.name + end)
            if one.exists():
                one.rename(self._path.with_name(f"{self._path.name}.aside-{number}{end}"))
        self._reached.path.unlink(missing_ok=True)
