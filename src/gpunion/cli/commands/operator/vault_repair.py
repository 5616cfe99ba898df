"""`gpunion vault repair`: mend what can be mended, and take the rest out of view."""

from __future__ import annotations

import argparse

from gpunion.cli import vault_location as vault_place
from gpunion.cli.context import Context
from gpunion.cli.exits import CONFLICT, OK
from gpunion.cli.output.screen import Screen
from gpunion.cli.output.vault_progress import VaultProgress
from gpunion.vault.vault_care import Repaired

CONNECTS = True
JSON = """`{unreadable, replaced, set_aside, in_use, not_read, fences}`: what was found, the blocks taken from
the other vault, the checkpoints out of view now, and those left alone since somebody reads them, or since
their files could not be read this time (exit code 5); `fences: [{job_id, epoch}]` can save again."""
EXAMPLES = (
    "gpunion vault repair /srv/gpunion/vault",
    "gpunion vault repair /srv/gpunion/vault --from /mnt/backup/vault",
    "gpunion vault repair bucket --from attic",
)


def configure(parser: argparse.ArgumentParser) -> None:
    vault_place.configure(parser)
    parser.add_argument(
        "--from",
        dest="source",
        metavar="DIR|PLACE",
        help="another vault, or a copy of this one, to take intact blocks from",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    screen = context.screen
    with vault_place.opened(arguments, context) as caretaker, VaultProgress(screen) as progress:
        source = None if arguments.source is None else vault_place.desk(arguments, context)
        repaired = caretaker.repair(arguments.job, source, progress.reach)
    if screen.as_json:
        screen.data(
            {
                "unreadable": [vault_place.shown_unreadable(lost) for lost in repaired.before.unreadable],
                "replaced": list(repaired.replaced),
                "set_aside": [vault_place.shown_unreadable(lost) for lost in repaired.set_aside],
                "in_use": [vault_place.shown_unreadable(lost) for lost in repaired.in_use],
                "not_read": [vault_place.shown_unreadable(lost) for lost in repaired.not_read],
                "fences": [{"job_id": job_id, "epoch": epoch} for job_id, epoch in repaired.fences],
            }
        )
    else:
        _show(screen, repaired)
    return CONFLICT if repaired.in_use or repaired.not_read else OK


def _show(screen: Screen, repaired: Repaired) -> None:
    for job_id, epoch in repaired.fences:
        screen.line(f"mended    {job_id} can save again: runs before its epoch {epoch} stay shut out")
    if repaired.before.fences and not repaired.before.unreadable:
        return
    if not repaired.before.unreadable:
        screen.line(f"All {repaired.before.checkpoints} checkpoints can be restored; nothing was changed.")
        return
    for name in repaired.replaced:
        screen.line(f"replaced  block {name} from the other vault")
    for lost in repaired.set_aside:
        screen.line(f"set aside {lost.job_id} {lost.checkpoint_id}: {lost.detail}")
    for lost in repaired.in_use:
        screen.line(f"in use    {lost.job_id} {lost.checkpoint_id}: left alone, repair again later")
    for lost in repaired.not_read:
        screen.line(
            f"not read  {lost.job_id} {lost.checkpoint_id}: {lost.detail}; left alone, it may be sound"
        )
    left_alone = len(repaired.in_use) + len(repaired.not_read)
    mended = len(repaired.before.unreadable) - len(repaired.set_aside) - left_alone
    screen.line(f"{mended} checkpoints mended, {len(repaired.set_aside)} out of view.")
    if repaired.set_aside:
        screen.line(
            "Their jobs go on from the newest checkpoint that is left. The records are kept, out of view."
        )
