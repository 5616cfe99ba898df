"""`gpunion bids`: what a job that runs in windows bids for, which its owner narrows and widens again."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, OK, USAGE, Trouble
from gpunion.cli.jobs.job_names import find_job, short
from gpunion.cli.parser import did_you_mean
from gpunion.cli.quantities import positive_duration_s, shown_duration

CONNECTS = True
JSON = """`{shortest_s, longest_s, vram, safe_every, not_on, bid}`: what it bids for, changed or not."""
EXAMPLES = (
    "gpunion bids train",
    "gpunion bids train --longest 30m --not-on lab-pc-3",
    "gpunion bids train --none",
    "gpunion bids train --again",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="its name, its id, or the beginning or end of it")
    parser.add_argument(
        "--shortest", type=positive_duration_s, metavar="D", help="no window shorter than this"
    )
    parser.add_argument("--longest", type=positive_duration_s, metavar="D", help="no piece longer than this")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--not-on", action="append", metavar="NODE", help="no window there; may be given several times"
    )
    where.add_argument("--anywhere", action="store_true", help="wherever it may run, again")
    whether = parser.add_mutually_exclusive_group()
    whether.add_argument("--none", action="store_true", help="begin nothing until --again")
    whether.add_argument("--again", action="store_true", help="bid again")


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    job_id = find_job(campus, arguments.job)
    change = _change(arguments)
    _check_machines(campus, arguments.not_on or ())
    if change:
        campus.change_bids(job_id, change)
    job = campus.job(job_id)
    if not job["atomizable"]:
        raise Trouble(
            f"{job['name']} ({short(job_id)}) does not run in windows, so it bids for none",
            next_step="hand it in with --atomizable (docs/windows.md)",
            code=USAGE,
        )
    if context.screen.as_json:
        context.screen.data(job["windows"])
        return OK
    context.screen.line(f"{job['name']} ({short(job_id)}) bids for {in_words(job)}.")
    return OK


def _check_machines(campus: Campus, names: Iterable[str]) -> None:
    """A misspelt one would replace the list before it, and keep the job from nowhere."""
    wanted = set(names)
    if not wanted:
        return
    known = {str(node["id"]) for node in campus.nodes()}
    for name in sorted(wanted - known):
        raise Trouble(
            f"there is no machine {name!r}{did_you_mean(name, known)}",
            next_step="gpunion nodes lists them",
            code=NOT_FOUND,
        )


def _change(arguments: argparse.Namespace) -> Json:
    change: Json = {}
    if arguments.shortest is not None:
        change["shortest_s"] = arguments.shortest
    if arguments.longest is not None:
        change["longest_s"] = arguments.longest
    if arguments.not_on or arguments.anywhere:
        change["not_on"] = arguments.not_on or []
    if arguments.none or arguments.again:
        change["bid"] = arguments.again
    return change


def narrowed(windows: Json) -> bool:
    """Whether its owner lets it bid for less than it could."""
    return not windows["bid"] or any(windows[key] for key in ("shortest_s", "longest_s", "not_on"))


def in_words(job: Json) -> str:
    windows = job["windows"]
    if not windows["bid"]:
        return f"nothing, until gpunion bids {short(job['id'])} --again"
    said = ["windows"]
    if windows["shortest_s"] is not None:
        said.append(f"of {shown_duration(windows['shortest_s'])} at least")
    if windows["longest_s"] is not None:
        said.append(f"in pieces of {shown_duration(windows['longest_s'])} at most")
    if windows["not_on"]:
        said.append(f"not on {', '.join(windows['not_on'])}")
    return ", ".join(said) if len(said) > 1 else "all windows that it fits"
