"""Finding the vault that a command is about, and saying what is wrong with it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, NOT_FOUND, UNAVAILABLE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.ports.vault import UnknownCheckpoint, VaultFault
from gpunion.ports.vault_care import Caretaker, Unreadable


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vault", type=Path, metavar="DIR", help="the vault's directory")
    parser.add_argument("--job", metavar="ID", help="of this job only")


@contextmanager
def opened(arguments: argparse.Namespace, context: Context) -> Iterator[Caretaker]:
    """Faults that come up while it is open are told as trouble."""
    try:
        from gpunion.agent.compose import caretaker
    except ImportError as error:
        raise missing_extra(error, "agent") from error
    place = context.here / arguments.vault
    try:
        yield caretaker(place)
    except UnknownCheckpoint as fault:
        raise Trouble(str(fault), next_step=f"gpunion vault ls {arguments.vault}", code=NOT_FOUND) from fault
    except VaultFault as fault:
        raise Trouble(
            f"the vault {arguments.vault} cannot be used",
            why=str(fault),
            next_step="is it the right directory, and is its disk there? Try again when it is",
            code=UNAVAILABLE if fault.temporary else ERROR,
        ) from fault


def shown_unreadable(lost: Unreadable) -> dict[str, object]:
    return {
        "job_id": lost.job_id,
        "checkpoint_id": lost.checkpoint_id,
        "blocks": list(lost.blocks),
        "detail": lost.detail,
    }
