"""`gpunion places`: where checkpoints can be kept, and which machines reach each."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.screen import Table
from gpunion.cli.quantities import shown_size

CONNECTS = True
JSON = """`{usual, places: [{name, kind, where, settings, free_bytes, low, trouble, reached_by}]}`; no secret
is among the settings. `free_bytes`: of folders that the coordinator sees; `low`: why that is too little."""
EXAMPLES = ("gpunion places", "gpunion submit --place bucket -- python train.py")


def configure(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace, context: Context) -> int:
    found = context.campus(arguments).places()
    if context.screen.as_json:
        context.screen.data(found)
        return OK
    rows = [
        [
            place["name"] + (" (usual)" if place["name"] == found["usual"] else ""),
            place["kind"],
            place["where"],
            ", ".join(place["reached_by"]) or "nobody",
            "-" if place.get("free_bytes") is None else shown_size(place["free_bytes"]),
        ]
        for place in found["places"]
    ]
    context.screen.table(Table(columns=("NAME", "KIND", "WHERE", "REACHED BY", "FREE"), rows=list(rows)))
    for place in found["places"]:
        if place["trouble"]:
            context.screen.line(f"{place['name']} is not there: {place['trouble']}")
        elif place.get("low"):
            context.screen.line(f"{place['name']}: {place['low']}")
    return OK
