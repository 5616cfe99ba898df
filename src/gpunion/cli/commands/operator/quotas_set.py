"""`gpunion quotas set`: how many GPUs a user or a lab may hold at once."""

from __future__ import annotations

import argparse

from gpunion.cli.commands.operator.quota_names import add_class_flag, of_class, quota_name
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.quantities import count
from gpunion.text import counted

CONNECTS = True
JSON = "`{name, priority, gpus, set_at, by}`: the quota as it is now."
EXAMPLES = (
    "gpunion quotas set user:ada 4",
    "gpunion quotas set 'lab:*' 16",
    "gpunion quotas set 'user:*' 1 --class high",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("who", metavar="WHO", type=quota_name, help="user:NAME, lab:NAME; a star: all others")
    parser.add_argument("gpus", metavar="GPUS", type=count, help="how many at once; 0: none")
    add_class_flag(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    quota = context.campus(arguments).set_quota(arguments.who, arguments.gpus, priority=arguments.priority)
    if context.screen.as_json:
        context.screen.data(quota)
        return OK
    held = f"{counted(quota['gpus'], 'GPU')} at once{of_class(quota)}"
    context.screen.line(f"{quota['name']} may hold {held}.")
    context.screen.line("Whoever holds more keeps it until it ends, and gets no more until then.")
    return OK
