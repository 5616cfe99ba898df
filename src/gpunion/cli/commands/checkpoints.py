"""`gpunion checkpoints`: what of a job is saved."""

from __future__ import annotations

import argparse

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.job_names import find_job
from gpunion.cli.quantities import shown_duration, shown_size
from gpunion.cli.screen import Table
from gpunion.cli.times import ago

CONNECTS = True
JSON = "`{checkpoints: [...]}` as GET /jobs/{id}/checkpoints answers (docs/http-api.md)."
EXAMPLES = ("gpunion checkpoints train",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="its name, its id, or the beginning or end of it")


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    checkpoints = campus.checkpoints(find_job(campus, arguments.job))
    if context.screen.as_json:
        context.screen.data({"checkpoints": checkpoints})
    elif not checkpoints:
        context.screen.line("No checkpoint yet.")
    else:
        rows = [_row(checkpoint) for checkpoint in checkpoints]
        columns = (
            "CHECKPOINT",
            "PHASE",
            "TIER",
            "NODE",
            "EPOCH",
            "STEP",
            "PROGRESS",
            "SIZE",
            "SHIPPED",
            "STOOD STILL",
            "LIES IN",
            "ASKED",
        )
        context.screen.table(Table(columns=columns, rows=list(rows)))
        for checkpoint in checkpoints:
            if checkpoint.get("ready_on"):
                context.screen.line(f"{checkpoint['id']} lies ready on {', '.join(checkpoint['ready_on'])}.")
    return OK


def _row(checkpoint: Json) -> list[str]:
    trouble = f": {checkpoint['trouble']}" if checkpoint["trouble"] else ""
    final = " (last of its run)" if checkpoint["final"] else ""
    unknown = [f"{place}? (no answer)" for place in checkpoint["places_unknown"]]
    return [
        str(checkpoint["id"]) + final,
        str(checkpoint["phase"]) + trouble,
        _tier(checkpoint),
        str(checkpoint["node_id"]),
        str(checkpoint["epoch"]),
        str(checkpoint["step"]),
        f"{checkpoint['progress']:.0%}",
        shown_size(checkpoint["size_bytes"]),
        shown_size(checkpoint["shipped_bytes"]),
        shown_duration(checkpoint["stall_s"]),
        ", ".join([*checkpoint["places"], *unknown]) or "-",
        ago(checkpoint["requested_at"]),
    ]


def _tier(checkpoint: Json) -> str:
    why = checkpoint["tier_why"]
    return f"{checkpoint['tier']} (not system: {why})" if why else str(checkpoint["tier"])
