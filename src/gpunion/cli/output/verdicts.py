"""Each node's answer to a job, for people."""

from __future__ import annotations

from collections.abc import Sequence

from gpunion.cli.campus import Json
from gpunion.cli.output.screen import Table


def verdict_table(verdicts: Sequence[Json]) -> Table:
    best = max((v["score"] for v in verdicts if v["fits"]), default=None)
    rows = [[str(v["node"]), "yes" if v["fits"] else "no", _why(v, best)] for v in verdicts]
    return Table(columns=("NODE", "FITS", "WHY"), rows=list(rows))


def _why(verdict: Json, best: float | None) -> str:
    if verdict["fits"]:
        return "it would do best" if verdict["score"] == best else "it would do"
    return str(verdict["sentence"] or verdict["code"])
