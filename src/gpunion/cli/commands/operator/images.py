"""`gpunion images ls`: what jobs may run in."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.screen import Table
from gpunion.cli.output.times import ago
from gpunion.cli.quantities import shown_size

CONNECTS = True
JSON = "`{images: [{image, name, digest, archive, size_bytes, added_at, added_by}]}`."
EXAMPLES = ("gpunion images ls",)
DIGITS_SHOWN = 12


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-trunc", action="store_true", help="show digests in full")


def run(arguments: argparse.Namespace, context: Context) -> int:
    images = context.campus(arguments).images()
    if context.screen.as_json:
        context.screen.data({"images": images})
        return OK
    if not images:
        context.screen.line("No image is listed: jobs run with what each machine has.")
        context.screen.line("Next: gpunion images add NAME --from ARCHIVE")
        return OK
    rows = [
        [
            image["name"],
            image["digest"] if arguments.no_trunc else _short(image["digest"]),
            "-" if image["size_bytes"] is None else shown_size(image["size_bytes"]),
            "the nodes' own" if image["archive"] is None else "the campus",
            image["added_by"],
            ago(image["added_at"]),
        ]
        for image in images
    ]
    columns = ("NAME", "DIGEST", "SIZE", "COMES FROM", "ADDED BY", "ADDED")
    context.screen.table(Table(columns=columns, rows=list(rows)))
    return OK


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:DIGITS_SHOWN]
