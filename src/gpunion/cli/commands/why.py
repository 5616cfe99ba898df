"""`gpunion why`: a job's story. The question people ask schedulers most, and are answered least."""

from __future__ import annotations

import argparse

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.following import UNTOLD_CODES
from gpunion.cli.job_names import find_job
from gpunion.cli.quantities import shown_finishing, shown_preparing, shown_reached, shown_saving
from gpunion.cli.times import ago, clock_time
from gpunion.cli.verdicts import verdict_table

CONNECTS = True
JSON = """`{job_id, phase, story, verdicts, waits, preparing, saving, finishing, places}` as
GET /jobs/{id}/why answers (docs/http-api.md)."""
EXAMPLES = ("gpunion why train",)
_ENDED = {"succeeded": "has succeeded", "failed": "has failed", "cancelled": "was cancelled"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="its name, its id, or the beginning or end of it")


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    job_id = find_job(campus, arguments.job)
    why = campus.why(job_id)
    if context.screen.as_json:
        context.screen.data(why)
        return OK
    screen = context.screen
    screen.line(_headline(campus.job(job_id), why["phase"]))
    for line in why["story"]:
        if line["code"] not in UNTOLD_CODES:
            screen.line(f"  {clock_time(line['at'])}  {line['sentence']}{_how_often(line)}")
    if why["preparing"] is not None:
        screen.line(f"Right now: {shown_preparing(why['preparing'])}.")
    saving = why.get("saving")  # a coordinator of before does not say
    if saving is not None:
        screen.line(f"Right now: {_saving(saving)}.")
    finishing = why.get("finishing")
    if finishing is not None:
        screen.line(f"Right now: {shown_finishing(finishing)}; its program ended {ago(finishing['since'])}.")
    for place, trouble in why["places"].items():
        screen.line(f"  now: {place}, where its saves go: {trouble}")
    if why["phase"] in ("pending", "migrating"):
        for reason in why["waits"]:
            screen.line(f"  now: {reason['sentence']}")
        screen.line()
        _explain_waiting(context, why)
    return OK


def _headline(job: Json, phase: str) -> str:
    """What somebody asks first: how it is, where, and how far."""
    words = f"{job['name']} ({job['id']}) {_ENDED.get(phase, 'is ' + phase)}"
    if phase in _ENDED:
        return f"{words}."
    reached = None if phase == "finishing" else job["live"] or job["durable"]
    where = f" on {job['node_id']}" if job["node_id"] else ""
    far = f", at {shown_reached(reached['progress'], reached['step'])}" if reached else ""
    return f"{words}{where}{far}."


def _how_often(line: Json) -> str:
    """Of what went wrong; that saves succeed again and again is no news."""
    again = line["code"] == "save_failed" and line["times"] > 1
    return f" ({line['times']} times in a row, the last of them then)" if again else ""


def _saving(saving: Json) -> str:
    if saving["stage"] != "unknown":
        return f"a save is {shown_saving(saving)}"
    away = "is not connected" if saving["heard_at"] is None else f"was last heard {ago(saving['heard_at'])}"
    return f"a save is under way; how far is not known, since its machine {away}"


def _explain_waiting(context: Context, why: Json) -> None:
    if why["verdicts"]:
        context.screen.line("What each machine says right now:")
        context.screen.table(verdict_table(why["verdicts"]))
    else:
        context.screen.line(
            "No machine is part of this campus now. Next: gpunion join, on a machine with a GPU."
        )
