"""`gpunion vault verify`: can everything that was called durable be read?"""

from __future__ import annotations

import argparse

from gpunion.cli import vault_place
from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, OK
from gpunion.cli.quantities import shown_size
from gpunion.cli.vault_progress import VaultProgress

CONNECTS = True
JSON = """`{checkpoints, blocks, plain_bytes, encrypted, encrypted_bytes, unreadable: [{job_id, checkpoint_id,
blocks, detail}]}`; `encrypted` counts those checked only as they are stored, their keys being elsewhere;
the exit code is 1 when something is unreadable."""
EXAMPLES = ("gpunion vault verify /srv/gpunion/vault", "gpunion vault verify /srv/gpunion/vault --job JOB")


def configure(parser: argparse.ArgumentParser) -> None:
    vault_place.configure(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    screen = context.screen
    with vault_place.opened(arguments, context) as caretaker, VaultProgress(screen) as progress:
        findings = caretaker.verify(arguments.job, progress.reach)
    if screen.as_json:
        screen.data(
            {
                "checkpoints": findings.checkpoints,
                "blocks": findings.blocks,
                "plain_bytes": findings.plain_bytes,
                "encrypted": findings.encrypted,
                "encrypted_bytes": findings.encrypted_bytes,
                "unreadable": [vault_place.shown_unreadable(lost) for lost in findings.unreadable],
            }
        )
        return ERROR if findings.unreadable else OK
    for lost in findings.unreadable:
        screen.line(f"UNREADABLE {lost.job_id} {lost.checkpoint_id}: {lost.detail}")
    read = f"{findings.checkpoints} checkpoints, {findings.blocks} blocks"
    screen.line(f"{read}, {shown_size(findings.plain_bytes)} read and checked.")
    if findings.encrypted:
        size = shown_size(findings.encrypted_bytes)
        screen.line(
            f"{findings.encrypted} of the checkpoints are encrypted, and their {size} lie there as they were "
            "stored. What is inside was not read: the jobs' keys are not here."
        )
    if not findings.unreadable:
        screen.line("All can be restored." if not findings.encrypted else "Nothing is missing or damaged.")
        return OK
    screen.line(
        f"{len(findings.unreadable)} cannot be restored. Next: gpunion vault repair {arguments.vault}"
    )
    return ERROR
