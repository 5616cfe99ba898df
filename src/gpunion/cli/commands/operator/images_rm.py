"""`gpunion images rm`: nobody is started in it any more; who runs in it goes on."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK

CONNECTS = True
JSON = "`{image, name, digest, archive, size_bytes, added_at, added_by}`: what was on the list."
EXAMPLES = ("gpunion images rm torch:2.4",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="NAME[@sha256:DIGEST]", help="as gpunion images ls shows it")


def run(arguments: argparse.Namespace, context: Context) -> int:
    removed = context.campus(arguments).remove_image(arguments.image)
    if context.screen.as_json:
        context.screen.data(removed)
    else:
        context.screen.line(f"{removed['image']} is off the list. Jobs that run in it go on where they are.")
    return OK
