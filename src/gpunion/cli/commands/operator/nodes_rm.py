"""`gpunion nodes rm`: a machine that has left, or is gone for good, is on the list no more."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK

CONNECTS = True
JSON = "The node as it was, as in GET /nodes (docs/http-api.md)."
EXAMPLES = ("gpunion nodes rm alpha",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "node", metavar="NODE", help="one that has left, or is silent and has nothing of anybody any more"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    removed = context.campus(arguments).remove_node(arguments.node)
    if context.screen.as_json:
        context.screen.data(removed)
    else:
        context.screen.line(f"{removed['id']} is off the list. A machine that joins anew is another node.")
    return OK
