"""`gpunion nodes accept`: a machine that was isolated has guests again."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK

CONNECTS = True
JSON = "The node as it is now, as in GET /nodes (docs/http-api.md)."
EXAMPLES = ("gpunion nodes accept alpha",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", help="one that `gpunion nodes` shows as ISOLATED, and why")


def run(arguments: argparse.Namespace, context: Context) -> int:
    accepted = context.campus(arguments).accept_node(arguments.node)
    if context.screen.as_json:
        context.screen.data(accepted)
    else:
        context.screen.line(
            f"{accepted['id']} is accepted: it gets guests and leases again. "
            "If what it was isolated for comes again, so does its isolation."
        )
    return OK
