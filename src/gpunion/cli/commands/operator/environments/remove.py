"""`gpunion environments rm`: nobody is started with it any more; who uses it goes on."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK

CONNECTS = True
JSON = "`{name, digest, packages, installed, added_at, added_by}`: what was published."
EXAMPLES = ("gpunion environments rm pytorch",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="as gpunion environments ls shows it")


def run(arguments: argparse.Namespace, context: Context) -> int:
    removed = context.campus(arguments).remove_environment(arguments.name)
    if context.screen.as_json:
        context.screen.data(removed)
        return OK
    context.screen.line(f"{removed['name']} is removed. Jobs that run with it go on where they are;")
    context.screen.line("those that wait for it wait until it is published again: gpunion why JOB says so.")
    return OK
