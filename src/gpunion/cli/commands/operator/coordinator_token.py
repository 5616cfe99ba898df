"""`gpunion coordinator token`: what an owner needs to join, once."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpunion.cli.context import Context
from gpunion.cli.exits import DENIED, OK, UNAVAILABLE, Trouble
from gpunion.cli.output.times import clock_time
from gpunion.cli.quantities import positive_duration_s

CONNECTS = True
JSON = "`{join_token, expires_at}`."
EXAMPLES = (
    "gpunion coordinator token",
    "gpunion coordinator token --data /srv/gpunion",
    "gpunion coordinator token -q --expires 10m",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expires",
        type=positive_duration_s,
        default=3600.0,
        metavar="TIME",
        help="how long it is good for (1h)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="of the coordinator with this data directory, on this machine",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print the token and nothing else")


def run(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.data is not None:
        _use(arguments)
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
        install = f"curl -fsS {campus.url}/install.sh | sh -s -- --token {made['join_token']}"
        context.screen.line(f"Where gpunion is not installed, this does both: {install}")
    return OK


def _use(arguments: argparse.Namespace) -> None:
    from gpunion.cli.config import address_in

    found = address_in(arguments.data)
    if found is None and (arguments.data / "address").exists():
        raise Trouble(
            f"the admin token of the coordinator in {arguments.data} cannot be read",
            why=f"{arguments.data / 'admin.token'} is not there, or not yours",
            next_step="as its user, with --token where you have it elsewhere; where it is lost: stop the "
            f"coordinator, then gpunion coordinator --data {arguments.data} --new-admin-token",
            code=DENIED,
        )
    if found is None:
        raise Trouble(
            f"no coordinator runs with the data directory {arguments.data}",
            why="it holds no address and no admin token that you can read",
            next_step=f"gpunion coordinator --data {arguments.data}",
            code=UNAVAILABLE,
        )
    arguments.url, arguments.token = found.url, found.token
