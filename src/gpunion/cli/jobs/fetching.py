"""Fetching what a job has made: only what is not here yet, from where a fetch broke off, all of it verified.

A file grows beside its name and gets it when it is whole: what has its name can be used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpunion.cli.campus import Campus, Json
from gpunion.cli.exits import CONFLICT, NOT_FOUND, Trouble
from gpunion.cli.jobs.beneath import Beneath, part_of
from gpunion.cli.jobs.job_names import short
from gpunion.cli.output.screen import Screen
from gpunion.cli.output.transfer import Transfer
from gpunion.sdk.errors import ApiProblem
from gpunion.vault.tree import BLOCK_SIZE_BYTES, BadTree, FileEntry, check_link_strictly

# A running job's output is listed again when a newer checkpoint replaced the one being fetched.
ROUNDS = 5
NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    job_id: str
    path: str  # "": everything
    target: Path
    refuses: Callable[[str], bool] = lambda path: False  # what must not come to lie there


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    job_id: str
    checkpoint_id: str
    final: bool
    step: int
    files: int
    size_bytes: int
    fetched_bytes: int
    target: Path

    def plain(self) -> Json:
        return {
            "job_id": self.job_id,
            "checkpoint_id": self.checkpoint_id,
            "final": self.final,
            "step": self.step,
            "files": self.files,
            "size_bytes": self.size_bytes,
            "fetched_bytes": self.fetched_bytes,
            "target": str(self.target),
        }


def fetch_output(screen: Screen, campus: Campus, wanted: Wanted) -> Fetched:
    for rounds_left in reversed(range(ROUNDS)):
        try:
            return _fetch(screen, campus, wanted)
        except ApiProblem as problem:
            if problem.code != "output_changed" or not rounds_left:
                raise
        except OSError as error:
            raise Trouble(
                f"{error.filename or wanted.target} cannot be written",
                why=error.strerror or str(error),
                next_step="make room or name another place; what has arrived is not fetched again",
            ) from error
    raise AssertionError("the last round returns or raises")


def _fetch(screen: Screen, campus: Campus, wanted: Wanted) -> Fetched:
    from gpunion.vault.job_directories import decode_record

    answer = campus.output(wanted.job_id)
    try:
        files = decode_record(answer)
    except BadTree as error:
        raise Trouble(f"the output of {short(wanted.job_id)} is listed wrongly: {error}") from error
    asked, base, inside = _choose(files, wanted)
    chosen = [entry for entry in asked if not wanted.refuses(entry.path)]
    refused = [entry.path for entry in asked if wanted.refuses(entry.path)]
    root = base / inside
    with closing(Beneath(base, inside)) as here:
        shelf = _Shelf(root=root, here=here)
        for entry in chosen:
            shelf.expect(entry)
        total = sum(shelf.sizes.values())
        with Transfer(screen, total, "fetched", quiet=screen.as_json) as transfer:
            _fetch_blocks(campus, wanted.job_id, str(answer["checkpoint_id"]), shelf, transfer.advance)
    for name in shelf.left_out:
        screen.note(f"Left out, since it would lead outside {root}: the link {name}")
    if refused:
        more = f" and {len(refused) - NAMES_SHOWN} more" if len(refused) > NAMES_SHOWN else ""
        names = ", ".join(refused[:NAMES_SHOWN])
        screen.note(f"Left out, since programs here would run it or trust it: {names}{more}")
    return Fetched(
        job_id=wanted.job_id,
        checkpoint_id=str(answer["checkpoint_id"]),
        final=bool(answer["final"]),
        step=int(answer["step"]),
        files=sum(1 for entry in chosen if stat.S_ISREG(entry.mode)),
        size_bytes=sum(entry.size_bytes for entry in chosen),
        fetched_bytes=total,
        target=root,
    )


def _choose(files: tuple[FileEntry, ...], wanted: Wanted) -> tuple[list[FileEntry], Path, str]:
    """What is asked for, with paths relative to where it goes, as `cp -r` would have it: a folder that the
    user named, and one in it or none."""
    path, target = wanted.path.strip("/"), wanted.target
    if not path:
        return list(files), target, ""
    name = path.rpartition("/")[2]
    here = next((entry for entry in files if entry.path == path), None)
    if here is not None and not stat.S_ISDIR(here.mode):
        if target.is_dir():
            return [replace(here, path=name)], target, ""
        return [replace(here, path=target.name)], target.parent, ""
    inside = [
        replace(entry, path=entry.path.removeprefix(f"{path}/"))
        for entry in files
        if entry.path.startswith(f"{path}/")
    ]
    if here is None and not inside:
        known = ", ".join(sorted({entry.path.partition("/")[0] for entry in files})[:NAMES_SHOWN])
        raise Trouble(
            f"the output of {short(wanted.job_id)} has no {path}",
            why=f"it has {known}" if known else "it is empty",
            next_step=f"gpunion cp {short(wanted.job_id)}: DIR fetches all of it"
            if known
            else f"gpunion logs {short(wanted.job_id)} shows what it printed; what is to be kept, a program "
            "writes into $GPUNION_OUTPUT_DIR",
            code=NOT_FOUND,
        )
    return inside, target, name if target.is_dir() else ""


@dataclass(slots=True)
class _Shelf:
    """Where each block goes, and what is still missing of each file."""

    root: Path
    here: Beneath
    places: dict[str, list[tuple[FileEntry, int]]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)  # by path: blocks
    left_out: list[str] = field(default_factory=list)

    def expect(self, entry: FileEntry) -> None:
        if stat.S_ISDIR(entry.mode):
            self.here.make_folder(entry.path)
            return
        there = self.here.looks(entry.path)
        if there is not None and stat.S_ISDIR(there.st_mode):
            path = self.root / entry.path
            raise Trouble(f"{path} is a directory here and a file in the output", code=CONFLICT)
        is_file = stat.S_ISREG(entry.mode)
        if is_file and there is not None and self._is_whole(there, entry):
            return
        offsets = self._lacking(entry) if is_file else [0]
        for offset in offsets:
            name = entry.blocks[offset // BLOCK_SIZE_BYTES]
            self.places.setdefault(name, []).append((entry, offset))
            self.sizes[name] = min(BLOCK_SIZE_BYTES, entry.size_bytes - offset)
        self.missing[entry.path] = len(offsets)
        if not offsets:
            self._finish(entry)

    def take(self, name: str, data: bytes) -> None:
        for entry, offset in self.places.pop(name, ()):
            if stat.S_ISLNK(entry.mode):
                self._link(entry, os.fsdecode(data))
                continue
            descriptor = self.here.open_file(part_of(entry.path), os.O_WRONLY)
            with open(descriptor, "wb") as file:
                file.seek(offset)
                file.write(data)
            self.missing[entry.path] -= 1
            if not self.missing[entry.path]:
                self._finish(entry)

    def _finish(self, entry: FileEntry) -> None:
        descriptor = self.here.open_file(part_of(entry.path), os.O_RDONLY)
        try:
            os.fchmod(descriptor, stat.S_IMODE(entry.mode) | 0o200)
        finally:
            os.close(descriptor)
        self.here.rename(part_of(entry.path), _name(entry.path))

    def _link(self, entry: FileEntry, target: str) -> None:
        """It lies where its name says, since no folder on the way is a link: so its depth can be counted."""
        try:
            check_link_strictly(entry.path, target)
        except BadTree:
            self.left_out.append(entry.path)
            return
        self.here.link(entry.path, target, _name(part_of(entry.path)))

    def _is_whole(self, there: os.stat_result, entry: FileEntry) -> bool:
        if not stat.S_ISREG(there.st_mode) or there.st_size != entry.size_bytes:
            return False
        return not _differing(self.here.open_file(entry.path, os.O_RDONLY), entry)

    def _lacking(self, entry: FileEntry) -> list[int]:
        """Offsets of the blocks that a file on its way lacks; it is made where it is not there."""
        descriptor = self.here.make_file(part_of(entry.path))
        fresh = os.fstat(descriptor).st_size == 0
        os.ftruncate(descriptor, entry.size_bytes)
        if fresh:
            os.close(descriptor)
            return [index * BLOCK_SIZE_BYTES for index in range(len(entry.blocks))]
        return _differing(descriptor, entry)


def _fetch_blocks(
    campus: Campus, job_id: str, checkpoint_id: str, shelf: _Shelf, advance: Callable[[int], None]
) -> None:
    from gpunion.vault.job_directories import batches

    for batch in batches(list(shelf.sizes.items())):
        for name, data in campus.output_blocks(job_id, checkpoint_id, batch):
            shelf.take(name, data)
            advance(len(data))
    if shelf.places:
        lost = sorted({entry.path for places in shelf.places.values() for entry, _ in places})
        raise Trouble(
            f"the vault cannot give all of {', '.join(lost[:NAMES_SHOWN])}",
            why="blocks of it are missing or damaged there; whatever else was asked for is here",
            next_step="the operator finds out more with: gpunion vault verify",
        )


def _differing(descriptor: int, entry: FileEntry) -> list[int]:
    """Offsets of the blocks that are others; closes it."""
    from gpunion.vault.job_directories import digest_of

    with open(descriptor, "rb") as file:
        return [
            index * BLOCK_SIZE_BYTES
            for index, name in enumerate(entry.blocks)
            if digest_of(file.read(BLOCK_SIZE_BYTES)) != name
        ]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
