"""Finding the vault that a command is about, and saying what is wrong with it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpunion.cli.connection import trouble_of
from gpunion.cli.context import Context
from gpunion.cli.exits import CONFLICT, ERROR, NOT_FOUND, UNAVAILABLE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.limits import LOCATION_NAME_PATTERN
from gpunion.sdk.errors import ClientError
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.locations import Place, PlaceKind, place_of
from gpunion.vault.manifest import UnknownCheckpoint, VaultFault
from gpunion.vault.vault_care import Caretaker, Unreadable


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "vault", metavar="DIR|PLACE", help="the vault's directory, or the name of a place of the campus"
    )
    parser.add_argument("--job", metavar="ID", help="of this job only: its id, or the beginning or end of it")


@contextmanager
def opened(arguments: argparse.Namespace, context: Context) -> Iterator[Caretaker]:
    """Faults that come up while it is open are told as trouble."""
    try:
        from gpunion.agent.compose.vault import caretaker
    except ImportError as error:
        raise missing_extra(error, "agent") from error
    try:
        found = caretaker(find(arguments.vault, arguments, context))
        if arguments.job is not None:
            arguments.job = _whole_id(found, arguments)
        yield found
    except UnknownCheckpoint as fault:
        raise Trouble(str(fault), next_step=f"gpunion vault ls {arguments.vault}", code=NOT_FOUND) from fault
    except VaultFault as fault:
        named = "one of the vaults" if getattr(arguments, "source", None) else f"the vault {arguments.vault}"
        raise Trouble(
            f"{named} cannot be used",
            why=str(fault),
            next_step="is it the right directory, and is its disk there? Try again when it is"
            if "Next: " not in str(fault)
            else "",
            code=UNAVAILABLE if fault.temporary else ERROR,
        ) from fault


def _whole_id(caretaker: Caretaker, arguments: argparse.Namespace) -> str:
    """Of the one job in the vault that is meant. A vault knows nothing of names."""
    word = str(arguments.job)
    known = [shelf.job_id for shelf in caretaker.survey(None)]
    meant = [one for one in known if one == word] or [
        one for one in known if word and (one.startswith(word) or one.endswith(word))
    ]
    if len(meant) == 1:
        return meant[0]
    listed = f"gpunion vault ls {arguments.vault}"
    if meant:
        raise Trouble(
            f"{word!r} could be {len(meant)} jobs", why=", ".join(meant[:5]), next_step=listed, code=CONFLICT
        )
    raise Trouble(
        f"the vault has nothing of a job {word!r}",
        why="a vault knows jobs by their ids, not by their names",
        next_step=listed,
        code=NOT_FOUND,
    )


def desk(arguments: argparse.Namespace, context: Context) -> VaultDesk:
    from gpunion.agent.compose.vault import desk_of

    return desk_of(find(arguments.source, arguments, context))


def find(vault: str, arguments: argparse.Namespace, context: Context) -> Path | Place:
    """A directory that is there; else a place of the campus, where one is called so."""
    folder = context.here / vault
    if folder.exists() or not LOCATION_NAME_PATTERN.fullmatch(vault):
        return folder
    tables: dict[str, Any] = {}
    try:
        campus = context.campus(arguments)
        tables |= {row["name"]: row["settings"] for row in campus.places()["places"]}
        place = place_of(vault, tables[vault], told=True)
        if place.kind is PlaceKind.CAMPUS:
            return Path(campus.campus()["vault"])
    except (Trouble, ClientError) as unknown:
        raise Trouble(
            f"there is no directory {folder}, and whether {vault} is a place of the campus cannot be asked",
            why=trouble_of(unknown).what if isinstance(unknown, ClientError) else unknown.what,
            next_step="name the vault's directory, or try again when the coordinator answers",
            code=UNAVAILABLE,
        ) from unknown
    except (KeyError, ValueError):
        known = ", ".join(sorted(tables))
        raise Trouble(
            f"there is no directory {folder}, and no place {vault} of the campus",
            next_step=f"name a directory, or a place that there is: {known}",
            code=NOT_FOUND,
        ) from None
    if place.kind is PlaceKind.NODE:
        raise Trouble(
            f"the place {vault} lies on the disk of {place.node}",
            why="only that machine can read all of it",
            next_step=f"the same command on {place.node}, with the directory of [keeps] in its agent.toml",
            code=CONFLICT,
        )
    return place


def shown_unreadable(lost: Unreadable) -> dict[str, object]:
    return {
        "job_id": lost.job_id,
        "checkpoint_id": lost.checkpoint_id,
        "blocks": list(lost.blocks),
        "detail": lost.detail,
        "passing": lost.passing,
    }
