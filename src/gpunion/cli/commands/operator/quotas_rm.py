"""`gpunion quotas rm`: a user or a lab may hold as many GPUs as there are."""

from __future__ import annotations

import argparse

from gpunion.cli.commands.operator.quota_names import add_class_flag, of_class, quota_name
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.text import counted

CONNECTS = True
JSON = "`{name, priority, gpus, set_at, by}`: the quota as it was."
EXAMPLES = ("gpunion quotas rm user:ada",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("who", metavar="WHO", type=quota_name, help="as gpunion quotas shows it")
    add_class_flag(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    lifted = context.campus(arguments).lift_quota(arguments.who, priority=arguments.priority)
    if context.screen.as_json:
        context.screen.data(lifted)
    else:
        context.screen.line(
            f"{lifted['name']} has no quota of its own now{of_class(lifted)}; "
            f"it was {counted(lifted['gpus'], 'GPU')}."
        )
    return OK
