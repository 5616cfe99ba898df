"""`gpunion why`: a job's story. The question people ask schedulers most, and are answered least."""

from __future__ import annotations

import argparse

from gpunion.cli.campus import Json
from gpunion.cli.commands.guest.bids import in_words, narrowed
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.jobs.following import UNTOLD_CODES
from gpunion.cli.jobs.job_names import find_job
from gpunion.cli.output.times import ago, clock_time
from gpunion.cli.output.used import used_in_words
from gpunion.cli.output.verdicts import verdict_table
from gpunion.cli.quantities import (
    shown_duration,
    shown_finishing,
    shown_preparing,
    shown_reached,
    shown_saving,
)

CONNECTS = True
JSON = """`{job_id, phase, story, verdicts, waits, preparing, saving, finishing, places}` as
GET /jobs/{id}/why answers (docs/http-api.md)."""
EXAMPLES = ("gpunion why train",)
# Who is believed by less than this is told so.
BELIEVED_SHOWN = 0.9
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
    job = campus.job(job_id)
    screen.line(_headline(job, why["phase"]))
    if job.get("pieces") is not None:
        screen.line(f"  {_pieces(job)}")
        if narrowed(job["windows"]):
            screen.line(f"  It bids for {in_words(job)}.")
        if job["pieces"]["believed"] < BELIEVED_SHOWN:
            screen.line(f"  {_believed(job['pieces'])}")
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
    if job.get("used"):
        screen.line(f"It used {used_in_words(job['used'], job['resources'])}.")
    for place, trouble in why["places"].items():
        screen.line(f"  now: {place}, where its saves go: {trouble}")
    if why["phase"] in ("pending", "migrating", "between"):
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


_ENDS = {
    "known_end": "when its owner has the machine",
    "promised": "when a job that needs several GPUs begins there",
    "gang": "when a gang begins there",
    "turn": "since others wait",
    "survival": "since the machine is not likely to be lent for longer",
}


def _pieces(job: Json) -> str:
    """ "7 windows so far, 2 h 10 min of work, 3 % of it coming and going; on b until 14:20"."""
    pieces = job["pieces"]
    count = pieces["windows"]
    words = f"{count} window{'' if count == 1 else 's'} so far"
    if pieces["worked_s"] > 0:
        share = round(100 * pieces["overhead_s"] / pieces["worked_s"])
        words += f", {shown_duration(float(round(pieces['worked_s'])))} of work in those that are over, "
        words += f"{share} % of it coming and going"
    if pieces["ends_at"] is not None:
        why = _ENDS.get(pieces["because"], "")
        words += f"; on {job['node_id']} until {clock_time(pieces['ends_at'])}, {why}"
    return f"{words}."


def _believed(pieces: Json) -> str:
    share = round(100 * pieces["believed"])
    why = "pieces of it, or of its user's others, did less than was said"
    return f"What is said of it counts for {share} %: {why}."


def _how_often(line: Json) -> str:
    """Of what went wrong; that saves succeed again and again is no news."""
    again = line["code"] == "save_failed" and line["times"] > 1
    return f" ({line['times']} times in a row, this is the last)" if again else ""


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
