"""A job's directory on this machine: what is not here is fetched, every block verified, then it is made."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from gpunion.agent.dependencies import World
from gpunion.agent.tasks import in_own_thread
from gpunion.ports.coordinator_link import LinkFault
from gpunion.vault.block_cache import BlockMissing
from gpunion.vault.job_directories import batches, decode_list
from gpunion.vault.tree import BadTree, FileEntry, block_sizes, check_link_strictly

# A coordinator that restarts is back within seconds; a start may wait that long for the rest.
FETCH_TRIES = 5
FETCH_WAIT_S = 1.0
# Blocks of 4 MiB in memory at most, beside the one that arrives.
PUT_AT_A_TIME = 4
# The rest of the machine goes on needing some.
KEEP_FREE_BYTES = 256 * 1024**2


class WorkTrouble(Exception):
    """Why the job's directory is not here, in words for the job's user."""


Files = tuple[FileEntry, ...]


async def fetch_list(world: World, digest: str) -> Files:
    for tries_left in reversed(range(FETCH_TRIES)):
        try:
            listing = await world.link.fetch_tree(digest)
            return await asyncio.to_thread(decode_list, listing)
        except LinkFault as fault:
            if not fault.temporary or not tries_left:
                raise
            await asyncio.sleep(FETCH_WAIT_S)
        except BadTree as error:
            raise WorkTrouble(f"the list of the job's directory is not safe to use: {error}") from error
    raise AssertionError("the last try returns or raises")


async def make_tree(
    world: World,
    files: Files,
    into: Path,
    cancelled: Callable[[], bool],
    told: Callable[[float], None] = lambda done: None,
) -> None:
    """Fetch and make it, in a place of our own. Again after a cut: what had arrived is not fetched again."""
    _check_room(files, into.parent)
    with world.blocks.using():
        for tries_left in reversed(range(FETCH_TRIES)):
            await fetch_blocks(world, files, cancelled, told)
            try:
                await in_own_thread(lambda: world.blocks.materialise(files, into))
                break
            except BlockMissing:
                if not tries_left:
                    raise
        await asyncio.to_thread(_check_links, files, into)


async def fetch_blocks(
    world: World,
    files: Iterable[FileEntry],
    cancelled: Callable[[], bool],
    told: Callable[[float], None] = lambda done: None,
) -> None:
    """Until all of them are here. A try counts as failed only where nothing arrived."""
    sizes = {name: size_bytes for entry in files for name, size_bytes in block_sizes(entry)}
    tries_left = FETCH_TRIES
    missing = await in_own_thread(lambda: world.blocks.missing(sizes))
    while missing:
        trouble: LinkFault | None = None
        try:
            wanted = {name: size_bytes for name, size_bytes in sizes.items() if name in missing}
            await _fetch_once(world, wanted, cancelled, told)
        except LinkFault as fault:
            if not fault.temporary:
                raise
            trouble = fault
        before, missing = missing, await in_own_thread(lambda: world.blocks.missing(sizes))
        if not missing:
            return
        if len(missing) < len(before):
            continue
        tries_left -= 1
        if not tries_left:
            raise trouble or WorkTrouble("the coordinator no longer has all of the job's directory")
        await asyncio.sleep(FETCH_WAIT_S)


async def read_file(world: World, entry: FileEntry, cancelled: Callable[[], bool]) -> bytes:
    """One small file of it, ahead of the rest."""
    with world.blocks.using():
        await fetch_blocks(world, [entry], cancelled)
        return await asyncio.to_thread(lambda: b"".join(world.blocks.read(name) for name in entry.blocks))


async def _fetch_once(
    world: World, wanted: dict[str, int], cancelled: Callable[[], bool], told: Callable[[float], None]
) -> None:
    """Some blocks are put away while the next ones arrive."""
    total_bytes, done_bytes = sum(wanted.values()), 0
    putting: set[asyncio.Task[None]] = set()
    try:
        for batch in batches(wanted.items()):
            async for name, data in world.link.fetch_blocks(batch):
                if cancelled():
                    raise WorkTrouble("it was ended before its directory was here")
                putting.add(asyncio.create_task(asyncio.to_thread(world.blocks.put, name, data)))
                done_bytes += len(data)
                if len(putting) >= PUT_AT_A_TIME:
                    done, putting = await asyncio.wait(putting, return_when=asyncio.FIRST_COMPLETED)
                    _raise_first(done)
                    told(done_bytes / max(1, total_bytes))
    finally:
        if putting:
            await asyncio.wait(putting)
    _raise_first(putting)


def _raise_first(done: Iterable[asyncio.Task[None]]) -> None:
    for task in done:
        task.result()


def move_in(source: Path, target: Path) -> None:
    """Fill a guest's directory, which stays the same directory: it may already be mounted somewhere.
    What is no directory but a link to one has nothing to give."""
    for entry in os.scandir(target):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    if source.is_dir() and not source.is_symlink():
        for entry in os.scandir(source):
            os.rename(entry.path, target / entry.name)


def _check_room(files: Files, place: Path) -> None:
    """Before gigabytes are fetched for nothing. Twice: once as blocks on their way, once as the tree."""
    needed_bytes = 2 * sum(entry.size_bytes for entry in files) + KEEP_FREE_BYTES
    free_bytes = shutil.disk_usage(place).free
    if free_bytes < needed_bytes:
        raise WorkTrouble(
            f"this machine's disk has {free_bytes >> 20} MiB free; "
            f"the job's directory needs {needed_bytes >> 20} MiB on its way in"
        )


def _check_links(files: Files, root: Path) -> None:
    """Each was made to stay inside by itself; through one another they must not lead out either."""
    for entry in files:
        if stat.S_ISLNK(entry.mode):
            try:
                check_link_strictly(entry.path, os.readlink(root / entry.path))
            except BadTree as error:
                shutil.rmtree(root, ignore_errors=True)
                raise WorkTrouble(str(error)) from error
