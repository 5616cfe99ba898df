"""`gpunion quotas rm`: a user or a lab may hold as many GPUs as there are."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.quota_names import quota_name
from gpunion.domain.counting import counted

CONNECTS = True
JSON = "`{name, gpus, set_at, by}`: the quota as it was."
EXAMPLES = ("gpunion quotas rm user:ada",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("who", metavar="WHO", type=quota_name, help="as gpunion quotas shows it")


def run(arguments: argparse.Namespace, context: Context) -> int:
    lifted = context.campus(arguments).lift_quota(arguments.who)
    if context.screen.as_json:
        context.screen.data(lifted)
    else:
        context.screen.line(
            f"{lifted['name']} has no quota of its own now; it was {counted(lifted['gpus'], 'GPU')}."
        )
    return OK
