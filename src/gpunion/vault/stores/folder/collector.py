"""Deletes blocks that nobody needs, and nothing else.

A block is needed when a sealed manifest names it, or when it is young. A job with a key has blocks
of its own, which only its manifests name.

Young means touched within the grace time, or since the beginning of any upload still under way:
whoever asks for a block or stores it makes it young, so nothing that an upload was told it need
not send can go before its seal. A checkpoint that is being read is kept by its hold, which keeps `forget`
from dropping the manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpunion.vault.manifest import Garbage, Manifest
from gpunion.vault.manifests import block_names
from gpunion.vault.stores.folder.blocks import Blocks
from gpunion.vault.stores.folder.operations import FileOperations
from gpunion.vault.stores.folder.records import Shelf

COLLECT_LOCK = "collect.lock"


def collect(
    root: Path,
    do: FileOperations,
    common: Blocks,
    own: Callable[[Shelf], Blocks],
    read: Callable[[Path], Manifest],
    *,
    grace_s: float,
    begun_lease_s: float,
) -> Garbage:
    """Under the collect lock alone. An unreadable manifest stops it: what that one needs is not known."""
    shelves = [Shelf(path) for path in sorted((root / "jobs").iterdir()) if path.is_dir()]
    shared, by_job = _needed(shelves, read)
    now_s = _server_time_s(root, do)
    begun = (_modified_s(shelf.begun) for shelf in shelves)
    under_way = (begun_s for begun_s in begun if begun_s is not None and now_s - begun_s < begun_lease_s)
    young_since_s = min([now_s - grace_s, *under_way])
    garbage = _sweep(do, common, shared, young_since_s)
    for shelf in shelves:
        if shelf.own_blocks.exists():
            swept = _sweep(do, own(shelf), by_job.get(shelf.root.name, set()), young_since_s)
            garbage = Garbage(
                blocks=garbage.blocks + swept.blocks, stored_bytes=garbage.stored_bytes + swept.stored_bytes
            )
    for path in sorted((root / "tmp").iterdir()):
        modified_s = _modified_s(path)
        if modified_s is not None and modified_s < young_since_s and not path.is_dir():
            do.unlink(path)
    return garbage


def _sweep(do: FileOperations, blocks: Blocks, named: set[str], young_since_s: float) -> Garbage:
    removed = stored_bytes = 0
    for path in blocks.stored():
        try:
            about = path.stat()
        except FileNotFoundError:
            continue
        if path.name not in named and about.st_mtime < young_since_s:
            do.unlink(path)
            removed += 1
            stored_bytes += about.st_size
    for name in blocks.suspects() - named:
        blocks.clear(name)
    return Garbage(blocks=removed, stored_bytes=stored_bytes)


def _needed(shelves: list[Shelf], read: Callable[[Path], Manifest]) -> tuple[set[str], dict[str, set[str]]]:
    """Of the common blocks, and of each job's own."""
    shared: set[str] = set()
    by_job: dict[str, set[str]] = {}
    for shelf in shelves:
        for path in shelf.sealed():
            try:
                manifest = read(path)
            except FileNotFoundError:
                continue  # forgotten meanwhile
            own = manifest.sealed is not None
            (by_job.setdefault(shelf.root.name, set()) if own else shared).update(block_names(manifest))
    return shared, by_job


def collected_s(root: Path) -> float | None:
    """When somebody last began to, by the file server's clock."""
    return _modified_s(root / COLLECT_LOCK)


def _server_time_s(root: Path, do: FileOperations) -> float:
    """By the file server's clock, as every age here. No new file for it: a full disk would refuse that."""
    do.touch(root / COLLECT_LOCK)
    return (root / COLLECT_LOCK).stat().st_mtime


def _modified_s(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
