"""`gpunion windows`: which windows there are, until when and why, who has them and who bids for them."""

from __future__ import annotations

import argparse

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.jobs.job_names import short
from gpunion.cli.output.screen import Table
from gpunion.cli.output.times import clock_time
from gpunion.cli.quantities import shown_duration

CONNECTS = True
JSON = """`{policy, turn_s, windows: [{node_id, gpus, ends_at, end, because, job_id, job_name, turn_over_at,
next_job_id, bids: [{job_id, job_name, steps, useful_s, length_s, vram_bytes, finishes}], unused_because}]}`
as GET /windows answers (docs/http-api.md)."""
EXAMPLES = ("gpunion windows",)


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def run(arguments: argparse.Namespace, context: Context) -> int:
    answer = context.campus(arguments).windows()
    screen = context.screen
    if screen.as_json:
        screen.data(answer)
        return OK
    if answer["policy"] is None:
        screen.line("This campus gives no windows: jobs that ask for them run like any other.")
        return OK
    if not answer["windows"]:
        screen.line("No GPU is free for a while only, and no job runs in a window.")
        screen.line("Next: gpunion run --atomizable -- COMMAND, where the campus is full (docs/windows.md)")
        return OK
    columns = ("WHERE", "ENDS", "WHY THEN", "WHO HAS IT", "WHO IS NEXT OR BIDS")
    screen.table(Table(columns=columns, rows=[_row(window) for window in answer["windows"]]))
    return OK


def _row(window: Json) -> list[str]:
    gpus = ", ".join(map(str, window["gpus"]))
    return [f"{window['node_id']} GPU {gpus}", _ends(window), window["because"], _who(window), _next(window)]


def _ends(window: Json) -> str:
    return "open" if window["ends_at"] is None else clock_time(window["ends_at"])


def _who(window: Json) -> str:
    if window["job_id"] is None:
        return "nobody"
    name = f"{window['job_name']} ({short(window['job_id'])})"
    over = window["turn_over_at"]
    return name if over is None else f"{name}, its turn until {clock_time(over)}"


def _next(window: Json) -> str:
    if window["next_job_id"] is not None:
        return f"{short(window['next_job_id'])} is next"
    if window["bids"]:
        return ", ".join(f"{bid['job_name']} ({_useful(bid)})" for bid in window["bids"])
    return str(window["unused_because"] or "-")


def _useful(bid: Json) -> str:
    return shown_duration(float(round(bid["useful_s"])))
