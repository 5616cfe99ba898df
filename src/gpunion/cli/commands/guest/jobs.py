"""`gpunion ps`: the jobs, newest first."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.jobs.job_names import short
from gpunion.cli.output.screen import Table
from gpunion.cli.output.times import ago, clock_time
from gpunion.cli.quantities import (
    positive_count,
    shown_finishing,
    shown_preparing,
    shown_reached,
    shown_saving,
)

CONNECTS = True
JSON = "`{jobs: [...]}`, newest first; a job as in GET /jobs (docs/http-api.md)."
EXAMPLES = ("gpunion ps", "gpunion ps -a --limit 20")

LIVING = (
    "pending",
    "starting",
    "running",
    "leaving",
    "migrating",
    "between",
    "stopping",
    "finishing",
    "held",
)
PAGE = 500


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--all", action="store_true", help="also those that are over")
    parser.add_argument(
        "--limit", type=positive_count, default=100, metavar="N", help="at most so many (100)"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    jobs: list[Json] = []
    cursor: str | None = None
    while len(jobs) < arguments.limit:
        page = campus.jobs(
            phases=() if arguments.all else LIVING,
            limit=min(PAGE, arguments.limit - len(jobs)),
            cursor=cursor,
        )
        jobs += page["jobs"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    if context.screen.as_json:
        context.screen.data({"jobs": jobs})
    elif not jobs:
        context.screen.line(
            "No jobs." if arguments.all else "No jobs under way; gpunion ps -a shows those that are over."
        )
    else:
        context.screen.table(_table(jobs))
    return OK


def _table(jobs: list[Json]) -> Table:
    now = datetime.now(UTC)
    rows = [
        [
            short(job["id"]),
            _name(job),
            _phase(job),
            _where(job),
            _progress(job),
            str(job["moves"]),
            ago(job["submitted_at"], now),
        ]
        for job in _gangs_by_rank(jobs)
    ]
    return Table(columns=("ID", "NAME", "PHASE", "WHERE", "PROGRESS", "MOVES", "SUBMITTED"), rows=list(rows))


def _gangs_by_rank(jobs: list[Json]) -> list[Json]:
    """Members stand together, the first of them first."""
    together: dict[str, list[Json]] = {}
    for job in jobs:
        gang = job.get("gang")
        together.setdefault(str(job["id"] if gang is None else gang["members"][0]), []).append(job)
    return [job for some in together.values() for job in sorted(some, key=_rank)]


def _rank(job: Json) -> int:
    gang = job.get("gang")
    return 0 if gang is None else int(gang["rank"])


def _name(job: Json) -> str:
    gang = job.get("gang")
    return str(job["name"]) if gang is None else f"{job['name']} ({gang['rank'] + 1} of {gang['size']})"


def _phase(job: Json) -> str:
    """With the program's own code where that is news, and with when its machine is wanted back."""
    leaves_by = job.get("leaves_by")  # a coordinator of before does not say
    if job["phase"] in ("running", "leaving") and leaves_by is not None:
        return f"{job['phase']} (until {clock_time(leaves_by)})"
    ends_at = (job.get("pieces") or {}).get("ends_at")
    if job["phase"] == "running" and ends_at is not None:
        return f"running until {clock_time(ends_at)}"
    return f"failed ({job['exit_code']})" if job["phase"] == "failed" and job["exit_code"] else job["phase"]


def _where(job: Json) -> str:
    return str(job["node_id"] or "-")


def _progress(job: Json) -> str:
    """What the program says now, or what is safe."""
    if job["preparing"] is not None:
        return shown_preparing(job["preparing"])
    reached = job["live"] or job["durable"]
    finishing = job.get("finishing")
    if finishing is not None:
        return shown_finishing(finishing)
    saving = job.get("saving")  # a coordinator of before does not say
    room_for = job.get("room_for")
    if room_for is not None and job["phase"] == "migrating":
        return f"made room for {short(room_for)}"
    words = [] if reached is None else [shown_reached(reached["progress"], reached["step"])]
    if job.get("session"):
        words = [f"a {job['session']}, see gpunion sessions"]
    if saving is not None and saving["stage"] != "unknown":
        words.append(f"a save is {shown_saving(saving)}")
    return "-" if job["phase"] == "succeeded" or not words else "; ".join(words)
