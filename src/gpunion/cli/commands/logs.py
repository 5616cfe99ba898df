"""`gpunion logs`: what a job printed, wherever it ran."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import INTERRUPTED, OK
from gpunion.cli.following import LOG_PAGE_BYTES, Follower, exit_code_of
from gpunion.cli.job_names import find_job, short

CONNECTS = True
JSON = """`{job_id, text, over}`: all that was printed, and whether more can come. With -f the same stream as
`gpunion run --json`, without `submitted`."""
EXAMPLES = ("gpunion logs train", "gpunion logs -f 7f3k9x2m")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="its name, its id, or the beginning or end of it")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job is over, then exit with its code"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    job_id = find_job(campus, arguments.job)
    if arguments.follow:
        follower = Follower(context, campus, job_id)
        try:
            ended = follower.follow()
        except KeyboardInterrupt:
            context.screen.note(f"\n{follower.prospect}\nCome back: gpunion logs -f {short(job_id)}")
            return INTERRUPTED
        if context.screen.as_json:
            context.screen.record({"type": "ended", "job": ended})
        return exit_code_of(ended)
    texts: list[str] = []
    offset = 0
    while True:
        page = campus.logs(job_id, offset=offset, limit=LOG_PAGE_BYTES)
        if not page["text"]:
            break
        offset = page["next_offset"]
        if context.screen.as_json:
            texts.append(page["text"])
        else:
            context.screen.raw(page["text"])
    if context.screen.as_json:
        context.screen.data({"job_id": job_id, "text": "".join(texts), "over": page["over"]})
    return OK
