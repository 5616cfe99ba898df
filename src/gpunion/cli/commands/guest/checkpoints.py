"""`gpunion checkpoints`: what of a job is saved."""

from __future__ import annotations

import argparse

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.jobs.job_names import find_job
from gpunion.cli.output.screen import Table
from gpunion.cli.output.times import ago
from gpunion.cli.quantities import shown_duration, shown_saving, shown_size

CONNECTS = True
JSON = "`{checkpoints: [...]}` as GET /jobs/{id}/checkpoints answers (docs/http-api.md): always all of them."
EXAMPLES = ("gpunion checkpoints train", "gpunion checkpoints --all train")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="its name, its id, or the beginning or end of it")
    parser.add_argument("--all", action="store_true", help="show also those that are not kept any more")


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    job_id = find_job(campus, arguments.job)
    checkpoints = campus.checkpoints(job_id)
    if context.screen.as_json:
        context.screen.data({"checkpoints": checkpoints})
    elif all(one["gone"] and one["phase"] != "durable" and not arguments.all for one in checkpoints):
        context.screen.line("No checkpoint is kept of it.")
    else:
        shown = [one for one in checkpoints if arguments.all or not one["gone"]]
        rows = [_row(checkpoint, job_id) for checkpoint in shown]
        columns = (
            "CHECKPOINT",
            "PHASE",
            "TIER",
            "NODE",
            "STEP",
            "SIZE",
            "SHIPPED",
            "STOOD STILL",
            "LIES IN",
            "ASKED",
        )
        if rows:
            context.screen.table(Table(columns=columns, rows=list(rows), folds_first=True))
        _tell_of_those_gone(context, checkpoints, hidden=not arguments.all)
        for checkpoint in shown:
            if checkpoint.get("ready_on"):
                context.screen.line(f"{checkpoint['id']} lies ready on {', '.join(checkpoint['ready_on'])}.")
    return OK


def _tell_of_those_gone(context: Context, checkpoints: list[Json], *, hidden: bool) -> None:
    gone = [one for one in checkpoints if one["gone"] and one["phase"] == "durable"]
    there = [one for one in checkpoints if one["phase"] == "durable" and not one["gone"]]
    if not gone:
        return
    if gone[-1]["step"] > max((one["step"] for one in there), default=-1):
        from_here = f"it would go on from step {there[-1]['step']}" if there else "it would begin anew"
        context.screen.line(
            f"The newest, {gone[-1]['id']} (step {gone[-1]['step']}), lies in none of its places any more: "
            f"{from_here}. What became of it: whoever runs the campus can ask gpunion vault verify."
        )
    elif hidden:
        context.screen.line(
            f"Not kept any more, since newer ones took their place: {len(gone)}. They are listed with --all."
        )


def _row(checkpoint: Json, job_id: str) -> list[str]:
    """Its name says the epoch; the job is the one that was asked for. --json has both whole."""
    trouble = f": {checkpoint['trouble_told']}" if checkpoint["trouble"] else ""
    if checkpoint.get("spoiled"):
        trouble = ": its program could not go on from it"
    final = " (last of its run)" if checkpoint["final"] else ""
    unknown = [f"{place}? (no answer)" for place in checkpoint["places_unknown"]]
    known = checkpoint["phase"] not in ("requested", "failed") or bool(checkpoint["size_bytes"])
    figures = [
        f"{checkpoint['step']} ({checkpoint['progress']:.0%})"
        if checkpoint["progress"]
        else str(checkpoint["step"]),
        shown_size(checkpoint["size_bytes"]),
        shown_size(checkpoint["shipped_bytes"]),
        shown_duration(checkpoint["stall_s"]),
    ]
    return [
        str(checkpoint["id"]).removeprefix(f"{job_id}-") + final,
        "gone" if checkpoint["gone"] else str(checkpoint["phase"]) + trouble + _under_way(checkpoint),
        _tier(checkpoint),
        str(checkpoint["node_id"]),
        *(figures if known else ["-"] * len(figures)),
        ", ".join([*checkpoint["places"], *unknown]) or "-",
        ago(checkpoint["requested_at"]),
    ]


def _under_way(checkpoint: Json) -> str:
    saving = checkpoint.get("under_way")  # a coordinator of before does not say
    if saving is None:
        return ""
    if saving["stage"] != "unknown":
        return f": {shown_saving(saving)}"
    away = "is not connected" if saving["heard_at"] is None else f"was last heard {ago(saving['heard_at'])}"
    return f": how far is not known, since {checkpoint['node_id']} {away}"


def _tier(checkpoint: Json) -> str:
    why = checkpoint["tier_why"]
    return f"{checkpoint['tier']} (not system: {why})" if why else str(checkpoint["tier"])
