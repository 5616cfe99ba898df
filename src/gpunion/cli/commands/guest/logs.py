"""`gpunion logs`: what a job printed, wherever it ran."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.exits import INTERRUPTED, OK
from gpunion.cli.jobs.following import LOG_PAGE_BYTES, Follower, exit_code_of, still_there
from gpunion.cli.jobs.job_names import find_job, short
from gpunion.cli.quantities import positive_count

CONNECTS = True
JSON = """`{job_id, text, over, lacking}`: all that was printed (or the lines asked for), whether no more is
waited for, and the machine whose last lines have not come, or null.
With -f the same stream as `gpunion run --json`, without `submitted`."""
EXAMPLES = ("gpunion logs train", "gpunion logs -f 7f3k9x2m", "gpunion logs -f --tail 20 train")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="its name, its id, or the beginning or end of it")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job is over, then exit with its code"
    )
    parser.add_argument(
        "-n", "--tail", type=positive_count, metavar="N", help="of what there is now, the last N lines only"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    job_id = find_job(campus, arguments.job)
    if arguments.tail is not None:
        text, page = _tail(campus, job_id, arguments.tail)
        if arguments.follow:
            return _follow(context, Follower(context, campus, job_id), text, page["next_offset"])
        return _show(context, job_id, [text], page)
    if arguments.follow:
        return _follow(context, Follower(context, campus, job_id))
    texts: list[str] = []
    for page in _pages(campus, job_id):
        if context.screen.as_json:
            texts.append(page["text"])
        else:
            context.screen.program(page["text"])
    return _show(context, job_id, texts, page)


def _follow(context: Context, follower: Follower, text: str = "", offset: int = 0) -> int:
    """From `offset` on; `text` is what comes before it."""
    try:
        ended = follower.follow(text, offset)
    except KeyboardInterrupt:
        come_back = f"Come back: gpunion logs -f {short(follower.job_id)}"
        context.screen.note(f"\n{follower.prospect}\n{come_back}")
        return INTERRUPTED
    if context.screen.as_json:
        context.screen.record({"type": "ended", "job": ended})
    return exit_code_of(ended)


def _show(context: Context, job_id: str, texts: list[str], last: Json) -> int:
    if context.screen.as_json:
        told = {"over": last["over"], "lacking": last.get("lacking")}
        context.screen.data({"job_id": job_id, "text": "".join(texts), **told})
    else:
        context.screen.program("".join(texts))
        if last.get("lacking") is not None:
            context.screen.note(still_there(job_id, last["lacking"]))
        elif last["next_offset"] == 0:
            context.screen.note("It has printed nothing." if last["over"] else "It has printed nothing yet.")
    return OK


def _tail(campus: Campus, job_id: str, lines: int) -> tuple[str, Json]:
    """The last lines, and the last page: the log is in segments on the coordinator's disk, read in order."""
    text = ""
    for page in _pages(campus, job_id):
        text = "".join((text + page["text"]).splitlines(keepends=True)[-lines:])
    return text, page


def _pages(campus: Campus, job_id: str) -> Iterator[Json]:
    """The last of them is empty."""
    offset = 0
    while True:
        page = campus.logs(job_id, offset=offset, limit=LOG_PAGE_BYTES)
        offset = page["next_offset"]
        yield page
        if not page["text"]:
            return
