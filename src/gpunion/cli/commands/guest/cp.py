"""`gpunion cp`: fetch what a job has made."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpunion.cli.context import Context
from gpunion.cli.exits import OK, USAGE, Trouble
from gpunion.cli.jobs.fetching import Fetched, Wanted, fetch_output
from gpunion.cli.jobs.finishing import wait_until_sent
from gpunion.cli.jobs.job_names import find_job
from gpunion.cli.quantities import shown_size
from gpunion.text import counted

CONNECTS = True
JSON = """`{job_id, checkpoint_id, final, step, files, size_bytes, fetched_bytes, target}`. `final`: as its
program left it; else as its newest checkpoint has it. `fetched_bytes`: what was not here already."""
EXAMPLES = (
    "gpunion cp train: results",
    "gpunion cp train:weights/best.pt .",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="JOB:PATH", help="a file or a directory of its output; nothing after the colon: all"
    )
    parser.add_argument("target", metavar="LOCAL", help="where to put it, as with cp")


def run(arguments: argparse.Namespace, context: Context) -> int:
    word, colon, path = arguments.source.partition(":")
    if not colon or not word:
        raise Trouble(
            f"{arguments.source!r} is not JOB:PATH",
            why="gpunion cp fetches what a job has made; what a job needs travels when it is handed in",
            next_step="gpunion cp JOB:PATH LOCAL (JOB: alone is all of it), or gpunion submit --dir DIR",
            code=USAGE,
        )
    campus = context.campus(arguments)
    wanted = Wanted(job_id=find_job(campus, word), path=path, target=context.here / Path(arguments.target))
    wait_until_sent(context, campus, wanted.job_id)
    fetched = fetch_output(context.screen, campus, wanted)
    if context.screen.as_json:
        context.screen.data(fetched.plain())
    else:
        context.screen.line(told(fetched))
    return OK


def told(fetched: Fetched) -> str:
    what = f"{counted(fetched.files, 'file')}, {shown_size(fetched.size_bytes)}, in {fetched.target}"
    if fetched.size_bytes and not fetched.fetched_bytes:
        what += " (all of it was here already)"
    if not fetched.final:
        what += f"; as saved at step {fetched.step}"
    return what
