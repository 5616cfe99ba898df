"""`gpunion coordinator token`: what an owner needs to join, once."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.quantities import positive_duration_s
from gpunion.cli.times import clock_time

CONNECTS = True
JSON = "`{join_token, expires_at}`."
EXAMPLES = ("gpunion coordinator token", "gpunion coordinator token -q --expires 10m")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expires",
        type=positive_duration_s,
        default=3600.0,
        metavar="TIME",
        help="how long it is good for (1h)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print the token and nothing else")


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    made = campus.make_join_token(expires_in_s=arguments.expires)
    if arguments.quiet:
        context.screen.line(made["join_token"])
    elif context.screen.as_json:
        context.screen.data(made)
    else:
        context.screen.line(made["join_token"])
        context.screen.line(f"Good for one machine until {clock_time(made['expires_at'])}.")
        context.screen.line(f"Next, on that machine: gpunion join {campus.url} --token {made['join_token']}")
    return OK
