"""`gpunion attach`: a terminal inside a job that runs."""

from __future__ import annotations

import argparse
import asyncio

from gpunion.cli.context import Context
from gpunion.cli.exits import OK, UNAVAILABLE, Trouble
from gpunion.cli.jobs.job_names import find_job, short
from gpunion.cli.sessions.asking import streams_of
from gpunion.sdk.streams import StreamBroken

CONNECTS = True
JSON = None
EXAMPLES = ("gpunion attach train",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="its name, its id, or the beginning or end of it")


def run(arguments: argparse.Namespace, context: Context) -> int:
    streams = streams_of(context, arguments)
    from gpunion.cli.sessions.terminal import carry, window

    job_id = find_job(context.campus(arguments), arguments.job)
    rows, columns = window()

    async def attached() -> None:
        stream = await streams.into_job(job_id, f"terminal:{rows}x{columns}")
        context.screen.note(
            f"A shell inside {short(job_id)}; `exit` leaves it. The job is not saved whole meanwhile."
        )
        await carry(stream)

    try:
        asyncio.run(attached())
    except StreamBroken as broken:
        raise Trouble(
            f"the terminal in {short(job_id)} is gone",
            why=str(broken),
            next_step=f"gpunion attach {short(job_id)}, once it runs again",
            code=UNAVAILABLE,
        ) from broken
    return OK
