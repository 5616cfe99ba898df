"""`gpunion quotas`: who holds how many GPUs, who may, and who has used and lent how much lately."""

from __future__ import annotations

import argparse

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.screen import Table
from gpunion.cli.quantities import shown_duration

CONNECTS = True
JSON = """`{quotas: [{name, priority, gpus, set_at, by}], accounts: [{name, held_gpus, limit, high_gpus,
high_limit, used_gpu_h, used_share, lent_gpu_h}], half_life_s}` as GET /quotas answers (docs/http-api.md)."""
EXAMPLES = ("gpunion quotas",)


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def run(arguments: argparse.Namespace, context: Context) -> int:
    answer = context.campus(arguments).quotas()
    screen = context.screen
    if screen.as_json:
        screen.data(answer)
        return OK
    known = {account["name"] for account in answer["accounts"]}
    rows = [_row(account) for account in answer["accounts"]]
    rows += [_unused(quota) for quota in answer["quotas"] if quota["name"] not in known]
    if not rows:
        screen.line("Nobody has used anything yet, and there are no quotas.")
        screen.line("Next: gpunion quotas set lab:NAME GPUS")
        return OK
    columns = ("WHO", "HOLDS", "MAY HOLD", "OF CLASS HIGH", "MAY HOLD", "USED LATELY", "SHARE", "LENT LATELY")
    screen.table(Table(columns=columns, rows=list(rows)))
    screen.line()
    screen.line(
        f"Use counts half after {shown_duration(answer['half_life_s'])}; "
        "whoever has used less and lent more is next."
    )
    screen.line("Work counts for its user and its lab: shares are of users among users, labs among labs.")
    return OK


def _row(account: Json) -> list[str]:
    return [
        account["name"],
        str(account["held_gpus"]),
        _limit(account["limit"]),
        str(account["high_gpus"]),
        _limit(account["high_limit"]),
        f"{account['used_gpu_h']:.1f} GPU-h",
        f"{account['used_share']:.0%}",
        f"{account['lent_gpu_h']:.1f} GPU-h",
    ]


def _limit(gpus: int | None) -> str:
    return "any" if gpus is None else str(gpus)


def _unused(quota: Json) -> list[str]:
    gpus, of_all = str(quota["gpus"]), quota["priority"] is None
    may_hold = ("0", gpus, "-", "-") if of_all else ("-", "-", "0", gpus)
    return [quota["name"], *may_hold, "-", "-", "-"]
