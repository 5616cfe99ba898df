"""`gpunion environments add`: a list of packages, published under a name."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, OK, USAGE, Trouble
from gpunion.domain.environment import LIST_LIMIT_BYTES, package_list
from gpunion.text import counted

CONNECTS = True
JSON = "`{name, digest, packages, installed, added_at, added_by}`, as `gpunion environments ls` has them."
EXAMPLES = ("gpunion environments add pytorch requirements.txt",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what jobs call it, like pytorch")
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="its packages: name==version, one a line, as pip freeze writes",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    file = context.here / arguments.file
    try:
        with file.open("rb") as opened:
            text = opened.read(LIST_LIMIT_BYTES + 1).decode("utf-8-sig")
        package_list(arguments.name, text)
    except FileNotFoundError:
        raise Trouble(f"there is no {arguments.file}", code=NOT_FOUND) from None
    except (ValueError, OSError) as error:
        raise Trouble(f"{arguments.file} cannot be an environment", why=str(error), code=USAGE) from error
    added = context.campus(arguments).add_environment(arguments.name, text)
    if context.screen.as_json:
        context.screen.data(added)
        return OK
    context.screen.line(f"{added['name']} is published, with {counted(added['packages'], 'package')}.")
    context.screen.line(f"Next: gpunion run --environment {added['name']} -- python train.py")
    return OK
