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
next_job_id, next_job_name, bids, unused_because}]}`, `bids` being `[{job_id, job_name, steps, useful_s,
length_s, vram_bytes, finishes}]`, as GET /windows answers (docs/http-api.md)."""
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
    columns = ("WHERE", "UNTIL", "WHY THEN", "WHO HAS IT", "WHO IS NEXT, OR BIDS")
    screen.table(Table(columns=columns, rows=[_row(window) for window in answer["windows"]]))
    return OK


def _row(window: Json) -> list[str]:
    gpus = ", ".join(map(str, window["gpus"]))
    where = f"{window['node_id']} GPU {gpus}"
    has = "nobody" if window["job_id"] is None else str(window["job_name"])
    return [where, _until(window), window["because"], has, _next(window)]


def _until(window: Json) -> str:
    """A turn may go on when it is over: whoever has it bids as well."""
    if window["ends_at"] is not None:
        return clock_time(window["ends_at"])
    if window["bids"] and window["turn_over_at"] is not None:
        return f"{clock_time(window['turn_over_at'])} or on"
    return "open"


def _next(window: Json) -> str:
    if window["next_job_id"] is not None:
        return f"{window['next_job_name']} ({short(window['next_job_id'])}) is next"
    if window["bids"]:
        return "bids: " + ", ".join(f"{bid['job_name']} {_useful(bid)}" for bid in window["bids"])
    return str(window["unused_because"] or "-")


def _useful(bid: Json) -> str:
    return shown_duration(float(round(bid["useful_s"])))
