"""`gpunion port`: TensorBoard and the like, at a port of this machine."""

from __future__ import annotations

import argparse
import asyncio

from gpunion.cli.context import Context
from gpunion.cli.exits import CONFLICT, OK, Trouble
from gpunion.cli.jobs.job_names import find_job, short
from gpunion.cli.sessions.asking import streams_of
from gpunion.tunnel.targets import PORT_MAX

CONNECTS = True
JSON = "One line, `{job_id, port, address}`, once it listens."
EXAMPLES = ("gpunion port train 6006", "gpunion port train 6006:16006")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="its name, its id, or the beginning or end of it")
    parser.add_argument(
        "ports", type=_ports, metavar="PORT[:HERE]", help="on the job's own loopback, and of this machine"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    streams = streams_of(context, arguments)
    from gpunion.cli.sessions.listening import HERE
    from gpunion.cli.sessions.pipes import listen

    job_id = find_job(context.campus(arguments), arguments.job)
    there, here = arguments.ports

    async def serve() -> None:
        listening = await listen(
            here, lambda: streams.into_job(job_id, f"port:{there}"), lambda why: context.screen.note(why)
        )
        address = f"{HERE}:{here}"
        if context.screen.as_json:
            context.screen.record({"job_id": job_id, "port": there, "address": address})
        else:
            context.screen.line(f"{address} is port {there} of {short(job_id)}. Ctrl-C ends it.")
        async with listening:
            await asyncio.Event().wait()  # for Ctrl-C

    try:
        asyncio.run(serve())
    except OSError as error:
        raise Trouble(
            f"port {here} of this machine cannot be listened at",
            why=error.strerror or str(error),
            next_step=f"choose another: gpunion port {arguments.job} {there}:PORT",
            code=CONFLICT,
        ) from error
    return OK


def _ports(text: str) -> tuple[int, int]:
    there, _, here = text.partition(":")
    numbers = [int(word) if word.isdecimal() else 0 for word in (there, here or there)]
    if not all(0 < number <= PORT_MAX for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT or PORT:HERE")
    return numbers[0], numbers[1]
