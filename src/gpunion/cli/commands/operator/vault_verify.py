"""`gpunion vault verify`: can everything that was called durable be read?"""

from __future__ import annotations

import argparse

from gpunion.cli import vault_location as vault_place
from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, OK
from gpunion.cli.output.screen import Screen
from gpunion.cli.output.vault_progress import VaultProgress
from gpunion.cli.quantities import shown_size
from gpunion.text import counted
from gpunion.vault.vault_care import Findings

CONNECTS = True
JSON = """`{checkpoints, blocks, plain_bytes, encrypted, encrypted_bytes, unreadable: [{job_id, checkpoint_id,
blocks, detail, passing}]}`; `encrypted` counts those checked only as they are stored, their keys being
elsewhere; `passing`: its files could not be read this time and may be sound; `fences: [{job_id, detail}]`
are jobs that can save nothing, since nobody can tell which of their runs is the newest; the exit code is 1
when something is unreadable."""
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
                "fences": [{"job_id": lost.job_id, "detail": lost.detail} for lost in findings.fences],
            }
        )
        return ERROR if findings.unreadable or findings.fences else OK
    for lost in findings.unreadable:
        word = "NOT READ" if lost.passing else "UNREADABLE"
        screen.line(f"{word} {lost.job_id} {lost.checkpoint_id}: {lost.detail}")
    for fence in findings.fences:
        screen.line(f"CANNOT SAVE {fence.job_id}: {fence.detail}")
    read = f"{counted(findings.checkpoints, 'checkpoint')}, {counted(findings.blocks, 'block')}"
    screen.line(f"{read}, {shown_size(findings.plain_bytes)} read and checked.")
    if findings.encrypted:
        size = shown_size(findings.encrypted_bytes)
        screen.line(
            f"{findings.encrypted} of the checkpoints are encrypted, and their {size} lie there as they were "
            "stored. What is inside was not read: the jobs' keys are not here."
        )
    if not findings.unreadable:
        screen.line("All can be restored." if not findings.encrypted else "Nothing is missing or damaged.")
    _say_what_to_do(screen, findings, arguments.vault)
    return ERROR if findings.unreadable or findings.fences else OK


def _say_what_to_do(screen: Screen, findings: Findings, vault: str) -> None:
    not_read = sum(lost.passing for lost in findings.unreadable)
    if not_read:
        screen.line(
            f"{not_read} could not be read this time, which says nothing of what is in them. Next: look at "
            f"the disk and at whose the files are (ls -lR {vault}), or upgrade GPUnion here where that is "
            "said; then verify again. A repair leaves them alone."
        )
    if any(not fence.misplaced for fence in findings.fences):
        screen.line(
            "Nobody can tell any more which run of a job that cannot save is its newest. Next: end what runs "
            f"of it, then gpunion vault repair {vault}: its next run is let in."
        )
    lost = len(findings.unreadable) - not_read
    if lost:
        screen.line(
            f"{lost} cannot be restored. Next: gpunion vault repair {vault} --from ANOTHER, where another "
            f"vault or a copy has them; without, gpunion vault repair {vault} takes them out of view, and "
            "their jobs go on from what is left."
        )
