"""Each node's answer to a job, for people."""

from __future__ import annotations

from collections.abc import Sequence

from gpunion.cli.campus import Json
from gpunion.cli.screen import Table


def verdict_table(verdicts: Sequence[Json]) -> Table:
    rows = [[str(v["node"]), "yes" if v["fits"] else "no", _why(v)] for v in verdicts]
    return Table(columns=("NODE", "FITS", "WHY"), rows=list(rows))


def _why(verdict: Json) -> str:
    if verdict["fits"]:
        return f"it would do (score {verdict['score']:.2f})"
    return str(verdict["sentence"] or verdict["code"])
