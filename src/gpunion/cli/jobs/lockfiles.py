"""Looking at a lockfile before it travels: what a node would refuse is better refused here."""

from __future__ import annotations

from pathlib import Path

from gpunion.cli.exits import NOT_FOUND, USAGE, Trouble
from gpunion.cli.jobs.ignoring import IGNORE_FILE
from gpunion.cli.output.screen import Screen
from gpunion.domain.lockfile import LOCKFILE_LIMIT_BYTES, BadLockfile, parse_lockfile, refuse_other_kinds
from gpunion.text import counted
from gpunion.vault.tree import BadTree, check_path

NAMES_SHOWN = 5


def check_lockfile(screen: Screen, folder: Path | None, name: str, *, quiet: bool) -> None:
    if folder is None:
        raise Trouble(
            f"{name} is a file of the job's directory, and none travels with it",
            next_step="leave --no-dir out, or the environment",
            code=USAGE,
        )
    file = folder / name
    try:
        check_path(name)
        refuse_other_kinds(name)
        with file.open("rb") as opened:
            text = opened.read(LOCKFILE_LIMIT_BYTES + 1)
        lockfile = parse_lockfile(text.decode("utf-8-sig"))
    except FileNotFoundError:
        raise Trouble(
            f"there is no {name} in {folder}",
            next_step=f"name a file of that directory which {IGNORE_FILE} does not leave out",
            code=NOT_FOUND,
        ) from None
    except (BadLockfile, BadTree, OSError, UnicodeDecodeError) as error:
        raise Trouble(f"{name} cannot be the job's environment", why=str(error), code=USAGE) from error
    if lockfile.loose and not quiet:
        shown = ", ".join(lockfile.loose[:NAMES_SHOWN]) + (", ..." if lockfile.loose[NAMES_SHOWN:] else "")
        screen.note(
            f"{name} leaves the version of {counted(len(lockfile.loose), 'package')} open ({shown}): "
            "after a move the job may find another one. Write name==version to be sure."
        )
