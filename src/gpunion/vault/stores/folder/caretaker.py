"""Looks after a directory vault that others go on using: it reads under a hold and moves under a lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gpunion.vault.cores import threads
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    Manifest,
    MissingBlock,
    UnknownCheckpoint,
    VaultUnavailable,
)
from gpunion.vault.manifests import block_names
from gpunion.vault.stores.folder.blocks import Blocks
from gpunion.vault.stores.folder.records import Misplaced, Shelf
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.copying import LOST, plain_from
from gpunion.vault.vault_care import Findings, JobShelf, LostFence, Progress, Repaired, Unreadable

WORKERS = threads(per_core=2)


class DirectoryCaretaker:
    """Implements `vault.vault_care.Caretaker`."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._vault = DirectoryVault(root, create=False)

    def survey(self, job_id: str | None) -> tuple[JobShelf, ...]:
        return tuple(self._shelf(shelf) for shelf in self._shelves(job_id))

    def verify(self, job_id: str | None, progress: Progress) -> Findings:
        reading = _Reading(self._vault, progress)
        unreadable: list[Unreadable] = []
        checkpoints = 0
        found = [(shelf, path) for shelf in self._shelves(job_id) for path in shelf.sealed()]
        reading.expect(self._manifest(path) for _, path in found)
        for shelf, path in found:
            checkpoints += 1
            encrypted = passing = False
            try:
                manifest = self._vault.read_manifest(path)
                encrypted = manifest.sealed is not None
                trouble = reading.check(manifest)
                passing = trouble is not None and reading.not_read.issuperset(trouble[0])
            except BadManifest as error:
                trouble, passing = ((), str(error)), isinstance(error, Misplaced)
            except (FileNotFoundError, UnknownCheckpoint):
                continue  # forgotten meanwhile
            except (OSError, VaultUnavailable) as error:
                trouble, passing = ((), _said(error)), True
            if trouble is not None:
                lost = _unreadable(shelf, path, *trouble, encrypted=encrypted)
                unreadable.append(replace(lost, passing=passing))
        return Findings(
            checkpoints=checkpoints,
            blocks=len(reading.done),
            plain_bytes=reading.plain_bytes,
            encrypted=reading.encrypted,
            encrypted_bytes=reading.encrypted_bytes,
            unreadable=tuple(unreadable),
            fences=self._lost_fences(job_id),
        )

    def repair(self, job_id: str | None, source: VaultDesk | None, progress: Progress) -> Repaired:
        before = self.verify(job_id, progress)
        replaced = self._replace(before, source) if source is not None else ()
        left = before if not replaced else self.verify(job_id, progress)
        # Before anything goes out of view: what is named there tells how far the job had come.
        fences = [lost.job_id for lost in before.fences if not lost.misplaced]
        mended = tuple((name, self._vault.mend_epoch(name)) for name in fences)
        set_aside: list[Unreadable] = []
        in_use: list[Unreadable] = []
        for lost in left.unreadable:
            if not lost.passing:
                moved = self._vault.set_aside(lost.job_id, lost.record)
                (set_aside if moved else in_use).append(lost)
        return Repaired(
            before=before,
            replaced=replaced,
            set_aside=tuple(set_aside),
            in_use=tuple(in_use),
            not_read=tuple(lost for lost in left.unreadable if lost.passing),
            fences=mended,
        )

    def _shelves(self, job_id: str | None) -> list[Shelf]:
        shelves = [shelf for shelf in self._vault.shelves() if job_id in (None, shelf.root.name)]
        if job_id is not None and not shelves:
            raise UnknownCheckpoint(f"the vault has nothing of {job_id}")
        return shelves

    def _lost_fences(self, job_id: str | None) -> tuple[LostFence, ...]:
        found = []
        for shelf in self._shelves(job_id):
            try:
                shelf.epoch()
            except BadManifest as error:
                lost = LostFence(
                    job_id=shelf.root.name, detail=str(error), misplaced=isinstance(error, Misplaced)
                )
                found.append(lost)
            except OSError:
                continue  # its manifests tell of the disk's trouble
        return tuple(found)

    def _shelf(self, shelf: Shelf) -> JobShelf:
        manifests = [(path, self._manifest(path)) for path in shelf.sealed()]
        try:
            epoch = shelf.epoch()
        except BadManifest:
            epoch = None
        return JobShelf(
            job_id=shelf.root.name,
            epoch=epoch,
            checkpoints=tuple(manifest for _, manifest in manifests if manifest is not None),
            damaged=tuple(path.name for path, manifest in manifests if manifest is None and path.exists()),
        )

    def _manifest(self, path: Path) -> Manifest | None:
        try:
            return self._vault.read_manifest(path)
        except (BadManifest, OSError):
            return None

    def _replace(self, found: Findings, source: VaultDesk) -> tuple[str, ...]:
        """A source that is away, or no room here, ends the repair before anything is taken out of view."""
        replaced = []
        damaged = [lost for lost in found.unreadable if not lost.passing]
        common = {name for lost in damaged if not lost.encrypted for name in lost.blocks}
        for name in sorted(common):
            if _is_damaged(self._vault.read_block, name):
                with suppress(*LOST):  # that one has lost it too
                    self._vault.put(name, plain_from(source, name))
                    replaced.append(name)
        for lost in damaged:
            if lost.encrypted:
                blocks = self._vault.foreign_blocks(lost.job_id)
                for name in lost.blocks:
                    if _is_damaged(blocks.examine, name):
                        with suppress(*LOST):
                            blocks.put_stored(name, source.fetch(name, lost.job_id))
                            replaced.append(name)
        return tuple(dict.fromkeys(replaced))


def _is_damaged(read: Callable[[str], object], name: str) -> bool:
    try:
        read(name)
    except (CorruptBlock, MissingBlock):
        return True
    except VaultUnavailable:
        return False  # nobody can tell while the disk does not give it
    return False


class _Reading:
    """Each block once, however many checkpoints share it."""

    def __init__(self, vault: DirectoryVault, progress: Progress) -> None:
        self._vault = vault
        self._progress = progress
        self._expected: set[str] = set()
        self.done: dict[str, str | None] = {}
        self.not_read: set[str] = set()  # those of them that the disk did not give
        self.plain_bytes = self.encrypted = self.encrypted_bytes = 0

    def expect(self, manifests: Iterable[Manifest | None]) -> None:
        for manifest in manifests:
            if manifest is not None:
                self._expected |= block_names(manifest)

    def check(self, manifest: Manifest) -> tuple[tuple[str, ...], str] | None:
        """The blocks that cannot be read, and what is wrong with the first of them. None: all is well."""
        names, blocks = block_names(manifest), self._vault.blocks_of(manifest)
        sealed = manifest.sealed is not None
        self.encrypted += sealed
        with (
            self._vault.hold(manifest.job_id, manifest.checkpoint_id),
            ThreadPoolExecutor(WORKERS) as pool,
        ):
            new = sorted(names - self.done.keys())
            results = pool.map(lambda name: _examined(blocks, name), new)
            for name, (size_bytes, trouble, given) in zip(new, results, strict=True):
                self.done[name] = trouble
                if not given:
                    self.not_read.add(name)
                self.plain_bytes += 0 if sealed else size_bytes
                self.encrypted_bytes += size_bytes if sealed else 0
                self._progress(len(self.done), max(len(self.done), len(self._expected)))
        bad = {name: trouble for name in sorted(names) if (trouble := self.done[name]) is not None}
        return (tuple(bad), next(iter(bad.values()))) if bad else None


def _examined(blocks: Blocks, name: str) -> tuple[int, str | None, bool]:
    """How many bytes, what is wrong with them, and whether anybody here could tell."""
    try:
        return blocks.examine(name), None, True
    except (CorruptBlock, MissingBlock) as fault:
        return 0, str(fault), True
    except VaultUnavailable as fault:
        return 0, str(fault), False


def _said(error: OSError | VaultUnavailable) -> str:
    return f"reading its manifest: {error.strerror}" if isinstance(error, OSError) else str(error)


def _unreadable(
    shelf: Shelf, path: Path, blocks: tuple[str, ...], detail: str, *, encrypted: bool
) -> Unreadable:
    return Unreadable(
        job_id=shelf.root.name,
        record=path.name,
        checkpoint_id=Shelf.checkpoint_id(path),
        blocks=blocks,
        detail=detail,
        encrypted=encrypted,
    )
