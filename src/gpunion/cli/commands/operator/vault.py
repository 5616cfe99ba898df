"""`gpunion vault ls`: what a vault keeps."""

from __future__ import annotations

import argparse
import stat

from gpunion.cli import vault_location as vault_place
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.screen import Table
from gpunion.cli.quantities import shown_size
from gpunion.vault.manifest import Manifest

CONNECTS = True
JSON = """`{jobs: [{job_id, epoch, checkpoints, damaged}]}`; a checkpoint has `{id, epoch, step, progress,
tier, parent, files, total_bytes, new_bytes}`, `damaged` names records that cannot be read."""
EXAMPLES = ("gpunion vault ls /srv/gpunion/vault", "gpunion vault ls /srv/gpunion/vault --job JOB --json")


def configure(parser: argparse.ArgumentParser) -> None:
    vault_place.configure(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    with vault_place.opened(arguments, context) as caretaker:
        shelves = caretaker.survey(arguments.job)
    screen = context.screen
    if screen.as_json:
        jobs = [
            {
                "job_id": shelf.job_id,
                "epoch": shelf.epoch,
                "checkpoints": [_shown(manifest) for manifest in shelf.checkpoints],
                "damaged": list(shelf.damaged),
            }
            for shelf in shelves
        ]
        screen.data({"jobs": jobs})
        return OK
    rows = [_row(manifest) for shelf in shelves for manifest in shelf.checkpoints]
    if rows:
        columns = ("JOB", "CHECKPOINT", "EPOCH", "STEP", "PROGRESS", "TIER", "SIZE", "ADDED")
        screen.table(Table(columns=columns, rows=list(rows)))
    else:
        screen.line("No checkpoint here.")
    for shelf in shelves:
        for record in shelf.damaged:
            screen.line(f"{shelf.job_id}: {record} cannot be read. Next: gpunion vault verify")
    return OK


def _row(manifest: Manifest) -> list[str]:
    return [
        manifest.job_id,
        manifest.checkpoint_id,
        str(manifest.epoch),
        str(manifest.step),
        f"{manifest.progress:.0%}",
        manifest.tier,
        shown_size(manifest.total_bytes),
        shown_size(manifest.new_bytes),
    ]


def _shown(manifest: Manifest) -> dict[str, object]:
    return {
        "id": manifest.checkpoint_id,
        "epoch": manifest.epoch,
        "step": manifest.step,
        "progress": manifest.progress,
        "tier": manifest.tier,
        "parent": manifest.parent,
        "files": sum(1 for entry in manifest.files if stat.S_ISREG(entry.mode)),
        "total_bytes": manifest.total_bytes,
        "new_bytes": manifest.new_bytes,
    }
