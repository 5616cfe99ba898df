"""Sending a directory: first its list, then the blocks that the coordinator does not have, then it is kept.

Whatever breaks in between, the next try begins with the same list and is asked for the rest alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpunion.cli.campus import Campus
from gpunion.cli.exits import Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.jobs.directory import (
    Inventory,
    LeftOut,
    Place,
    Snapshot,
    changed,
    inside,
    take_inventory,
    take_snapshot,
)
from gpunion.cli.jobs.ignoring import IGNORE_FILE, Why
from gpunion.cli.output.screen import Screen
from gpunion.cli.output.transfer import Transfer
from gpunion.cli.quantities import shown_size
from gpunion.text import counted

# From here on it is worth saying what weighs so much: it may not be meant to travel.
LARGE_BYTES = 1024**3
# A file that changed between the list and the sending makes a new list; one that always does is named.
TRIES = 3
# Blocks that the coordinator lost or found damaged in between are asked for once more.
ROUNDS = 3


# So many names of what stayed behind are shown; --json has all.
LEFT_OUT_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    digest: str | None  # to submit with; None for a directory with nothing in it
    left_out: tuple[LeftOut, ...] = ()


class _Changed(Exception):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def send_directory(
    screen: Screen,
    campus: Campus,
    folder: Path,
    *,
    quiet: bool = False,
    output: Path | None = None,
    included: Sequence[str] = (),
    is_wanted: Callable[[str], bool] = lambda digest: True,
) -> Sent:
    """`included` are the names that travel although they would be left out.

    `output` is where what the job makes will be put: what earlier ones made does not travel with it.
    `is_wanted` is asked once the digest is known, where there is something to send.
    """
    with _telling_that_nothing_was(screen):
        inventory = take_inventory(folder, left_out=output, included=included)
    left_out = inventory.left_out
    _tell_what_stays(screen, inventory, output)
    if not quiet and not screen.as_json:
        _tell_what_is_left_out(screen, left_out)
    if inventory.skipped:
        screen.note(f"Left out, being neither file nor directory: {', '.join(inventory.skipped)}")
    if not inventory.entries:
        return Sent(digest=None, left_out=left_out)
    quiet = quiet or screen.as_json
    if not quiet and inventory.size_bytes >= LARGE_BYTES:
        screen.note(
            f"{folder} has {shown_size(inventory.size_bytes)}; the largest are {inventory.largest()}. "
            f"What the job does not need can be named in {IGNORE_FILE}."
        )
    for tries_left in reversed(range(TRIES)):
        try:
            digest = _send(screen, campus, inventory, is_wanted, quiet=quiet)
            return Sent(digest=digest, left_out=left_out)
        except _Changed as trouble:
            if not tries_left:
                raise changed(trouble.path) from trouble
            inventory = take_inventory(folder, left_out=output, included=included)
    raise AssertionError("the last try returns or raises")


def _tell_what_stays(screen: Screen, inventory: Inventory, output: Path | None) -> None:
    name = "" if output is None or not output.is_dir() else inside(inventory.folder, output)
    if name and not any(entry.name == name for entry in inventory.entries):
        screen.note(f"Not sent: {name}, where its output goes. To send it, write !{name} into {IGNORE_FILE}.")


def _tell_what_is_left_out(screen: Screen, left_out: Sequence[LeftOut]) -> None:
    secrets = [item.name for item in left_out if item.why is Why.SECRET]
    if secrets:
        screen.note(
            f"Not sent, as it may hold secrets: {_some(secrets)}. "
            f"What the job needs of it is sent if you name it: --include {secrets[0].rstrip('/')}"
        )
    environments = [item.name for item in left_out if item.why is Why.ENVIRONMENT]
    if environments:
        screen.note(
            f"Not sent, being a virtual environment of this machine: {_some(environments)}. "
            "Packages are installed where the job runs: --environment requirements.txt"
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - LEFT_OUT_SHOWN
    return ", ".join(names[:LEFT_OUT_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _send(
    screen: Screen,
    campus: Campus,
    inventory: Inventory,
    is_wanted: Callable[[str], bool],
    *,
    quiet: bool,
) -> str:
    try:
        from gpunion.vault.job_directories import digest_of, encode_list
    except ImportError as error:
        raise missing_extra(error, "cli") from error
    with (
        _telling_that_nothing_was(screen),
        Transfer(screen, inventory.size_bytes, "read", quiet=quiet) as reading,
    ):
        snapshot = take_snapshot(inventory, reading.advance)
        listing = encode_list(snapshot.files)
        digest = digest_of(listing)
    for round_ in range(ROUNDS):
        with _telling_that_nothing_was(screen):
            missing = campus.offer_tree(digest, listing)["missing"]
        if not missing or (round_ == 0 and not is_wanted(digest)):
            return digest
        _send_blocks(screen, campus, snapshot, missing, quiet=quiet)
    raise Trouble(
        "the coordinator does not keep what it is sent",
        why=f"{len(missing)} blocks were still missing after they had been sent {ROUNDS} times",
        next_step="tell the operator to look at its disk and its log",
    )


def _send_blocks(
    screen: Screen, campus: Campus, snapshot: Snapshot, missing: list[str], *, quiet: bool
) -> None:
    from gpunion.vault.job_directories import batches

    strangers = [name for name in missing if name not in snapshot.places]
    if strangers:
        raise Trouble("the coordinator asks for blocks that were never offered", next_step="gpunion doctor")
    # In the order of the files, not of the hashes: disks like that.
    asked = set(missing)
    wanted = {name: place for name, place in snapshot.places.items() if name in asked}
    sizes = {name: place.size_bytes or 1 for name, place in wanted.items()}
    total = sum(sizes.values())
    if not quiet:
        files = sum(1 for entry in snapshot.files if not asked.isdisjoint(entry.blocks))
        screen.note(f"Sending {counted(files, 'file')}, {shown_size(total)}.")
    with _telling_that_nothing_was(screen), Transfer(screen, total, "sent", quiet=quiet) as sending:
        for batch in batches(sizes.items()):
            campus.put_blocks({name: _read(wanted[name], name) for name in batch}, sending.advance)


@contextmanager
def _telling_that_nothing_was(screen: Screen) -> Iterator[None]:
    """Whoever has had enough of the sending is to know that the job is not there either."""
    try:
        yield
    except KeyboardInterrupt:
        screen.note("\nNothing was handed in. The same command, within a day, sends only what is missing.")
        raise


def _read(place: Place, name: str) -> bytes:
    from gpunion.vault.job_directories import digest_of

    try:
        data = place.read()
    except OSError as error:
        raise _Changed(place.path) from error
    if digest_of(data) != name:
        raise _Changed(place.path)
    return data
