"""`gpunion environments ls`: which packages jobs may have by a name, and where they lie ready."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.screen import Table
from gpunion.cli.output.times import ago
from gpunion.cli.quantities import shown_size

CONNECTS = True
JSON = "`{environments: [{name, digest, packages, installed: [{node, size_bytes}], added_at, added_by}]}`."
EXAMPLES = ("gpunion environments ls",)


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def run(arguments: argparse.Namespace, context: Context) -> int:
    environments = context.campus(arguments).environments()
    if context.screen.as_json:
        context.screen.data({"environments": environments})
        return OK
    if not environments:
        context.screen.line("No environment is published: jobs bring lists of packages of their own.")
        context.screen.line("Next: gpunion environments add NAME requirements.txt")
        return OK
    rows = [
        [
            environment["name"],
            str(environment["packages"]),
            shown_size(max(there["size_bytes"] for there in environment["installed"]))
            if environment["installed"]
            else "-",
            ", ".join(there["node"] for there in environment["installed"]) or "nowhere yet",
            environment["added_by"],
            ago(environment["added_at"]),
        ]
        for environment in environments
    ]
    columns = ("NAME", "PACKAGES", "SIZE", "READY ON", "ADDED BY", "ADDED")
    context.screen.table(Table(columns=columns, rows=list(rows)))
    return OK
