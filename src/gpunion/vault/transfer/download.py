"""From any vault into a directory: every block verified, and the directory appears whole or not at all.

Nothing is synced here unless that is asked for. A machine that loses its power loses its guests too, and
whoever starts them again restores again: waiting for the disk would only keep a guest waiting.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from blake3 import blake3

from gpunion.files import NO_ROOM
from gpunion.vault.cores import threads
from gpunion.vault.manifest import (
    BLOCK_SIZE_BYTES,
    CorruptBlock,
    FileEntry,
    LocalDiskTrouble,
    Manifest,
    Vault,
    WrongKey,
)
from gpunion.vault.manifests import check, check_links
from gpunion.vault.room import WRITE_BYTES

# Nothing of it is kept until the next block is asked for: it may be lent (`Vault.lend_block`).
ReadBlock = Callable[[str], bytes | memoryview]


def restore_directory(
    vault: Vault,
    manifest: Manifest,
    target: str | os.PathLike[str],
    *,
    durable: bool = False,
    workers: int | None = None,
    told: Callable[[int], None] = lambda size_bytes: None,
) -> None:
    """Put the checkpoint at `target`, in place of what is there. Cut short anywhere, `target` is as it was.

    (While an old directory is being replaced there is a moment with none; never one with a part.)
    `told` hears of each block that has come, from any thread.
    """
    check(manifest)
    if manifest.sealed is not None:
        raise WrongKey(f"{manifest.checkpoint_id} is encrypted, and the key of {manifest.job_id} is not here")
    with vault.hold(manifest.job_id, manifest.checkpoint_id):
        read = telling(vault.lend_block, told)
        workers = workers or workers_for(waiting=vault.waits_for_blocks())
        restore_tree(read, manifest.files, target, durable=durable, workers=workers)


def workers_for(*, waiting: bool) -> int:
    """What comes from a network is waited for: another computes meanwhile. Where nobody waits, one more than
    cores would only take the others' caches and turns."""
    return threads(more=1 if waiting else 0)


def telling(read_block: ReadBlock, told: Callable[[int], None]) -> ReadBlock:
    def read(name: str) -> bytes | memoryview:
        data = read_block(name)
        told(len(data))
        return data

    return read


def restore_tree(
    read_block: ReadBlock,
    files: Sequence[FileEntry],
    target: str | os.PathLike[str],
    *,
    durable: bool = False,
    workers: int,
) -> None:
    """The same from any source of verified blocks; `files` must have been checked."""
    place = Path(target)
    with _local_trouble():
        _clear_leftovers(place)
        staging = _sibling(place, "restore")
        staging.mkdir(mode=0o700)
        try:
            _restore_files(read_block, files, staging, workers)
            _restore_links(read_block, files, staging)
            if durable:
                _sync_all(staging)
            _set_modes(files, staging)
            _swap(staging, place)
            if durable:
                _sync(place.parent)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise


def _restore_files(read_block: ReadBlock, files: Sequence[FileEntry], staging: Path, workers: int) -> None:
    """Links come last of all, in `_restore_links`: until then nothing here can lead outside."""
    blocks, folders = [], set[str]()
    for file in [_File(entry, os.path.join(staging, entry.path), folders) for entry in files]:
        if stat.S_ISREG(file.entry.mode) and file.entry.blocks:  # made by who comes to its first block
            blocks += [_Block(file, index, name) for index, name in enumerate(file.entry.blocks)]
        else:
            file.make()
    shares = _Shares(blocks, workers)
    with ThreadPoolExecutor(workers) as pool:
        try:
            for worker in [pool.submit(_restore_blocks, read_block, shares, own) for own in range(workers)]:
                worker.result()
        finally:
            shares.stop()


class _Shares:
    """Each worker has blocks of its own, that follow each other, and takes from the end of the longest share
    when it is done with those: nobody has to be woken to hand them out, and few meet in one file."""

    def __init__(self, blocks: Sequence[_Block], workers: int) -> None:
        each = -(-len(blocks) // workers)
        self._shares = [deque(blocks[own * each : (own + 1) * each]) for own in range(workers)]
        self._lock = threading.Lock()
        self._stopped = False

    def next(self, own: int) -> _Block | None:
        with self._lock:
            if self._stopped:
                return None
            if self._shares[own]:
                return self._shares[own].popleft()
            longest = max(self._shares, key=len)
            return longest.pop() if longest else None

    def stop(self) -> None:
        self._stopped = True


def _restore_blocks(read_block: ReadBlock, shares: _Shares, own: int) -> None:
    try:
        while (block := shares.next(own)) is not None:
            _restore_block(read_block, block)
    finally:
        shares.stop()  # where one failed, the others' work is in vain


class _File:
    def __init__(self, entry: FileEntry, path: str, folders: set[str]) -> None:
        """`folders`: those that are there, so that not every file asks for its own."""
        self._folders = folders
        self.entry = entry
        self.path = path
        # Who writes to a file has it alone, and the system lets others wait for it at full speed: a core that
        # could unpack the next block meanwhile.
        self.turn = threading.Lock()
        self._is_there = False

    def make(self) -> None:
        """Before its first block; whoever comes later finds it made."""
        if not self._is_there:
            with self.turn:
                self._make()

    def _make(self) -> None:
        if self._is_there:  # by who had the turn before
            return
        folder = self.path if stat.S_ISDIR(self.entry.mode) else os.path.dirname(self.path)
        if folder not in self._folders:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._folders.add(folder)
        if stat.S_ISREG(self.entry.mode):
            with open(self.path, "xb", buffering=0) as file:
                os.ftruncate(file.fileno(), self.entry.size_bytes)
                # A full disk answers now and not after the fetching; and what has its room is written faster.
                for offset, size_bytes in _filled(self.entry):
                    os.posix_fallocate(file.fileno(), offset, size_bytes)
        self._is_there = True


def _filled(entry: FileEntry) -> Iterator[tuple[int, int]]:
    """Offsets and sizes, as few as will do, of what is not a hole."""
    start = 0
    for index, name in enumerate(entry.blocks):
        offset = index * BLOCK_SIZE_BYTES
        if name == _hole():
            if offset > start:
                yield start, offset - start
            start = offset + BLOCK_SIZE_BYTES
    if entry.size_bytes > start:
        yield start, entry.size_bytes - start


@cache
def _hole() -> str:
    """A block of nothing but zeros: a file that was mostly holes must not need a whole disk to come back."""
    return blake3(bytes(BLOCK_SIZE_BYTES)).hexdigest()


@dataclass(frozen=True, slots=True)
class _Block:
    file: _File
    index: int
    name: str


def _restore_block(read_block: ReadBlock, block: _Block) -> None:
    entry, offset = block.file.entry, block.index * BLOCK_SIZE_BYTES
    block.file.make()
    data = read_block(block.name)
    if len(data) != min(BLOCK_SIZE_BYTES, entry.size_bytes - offset):
        raise CorruptBlock(f"{entry.path} came out with another size than its manifest says")
    if block.name == _hole():
        return
    descriptor = os.open(block.file.path, os.O_WRONLY)
    try:
        with block.file.turn:
            _write_at(descriptor, data, offset)
    finally:
        os.close(descriptor)


def _write_at(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    left = memoryview(data)
    while left:
        written = os.pwrite(descriptor, left[:WRITE_BYTES], offset)
        left, offset = left[written:], offset + written


def _restore_links(read_block: ReadBlock, files: Sequence[FileEntry], staging: Path) -> None:
    links = {
        entry.path: os.fsdecode(b"".join(bytes(read_block(block)) for block in entry.blocks))
        for entry in files
        if stat.S_ISLNK(entry.mode)
    }
    check_links(links)
    for path in links:  # before the first link is there that could be taken for one of them
        (staging / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, target in links.items():
        os.symlink(target, staging / path)


def _sync_all(staging: Path) -> None:
    for directory, _, names in os.walk(staging, topdown=False):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink():
                _sync(path)
        _sync(Path(directory))


def _set_modes(files: Sequence[FileEntry], staging: Path) -> None:
    """From the inside out, since a directory that forbids writing would keep us from the inner ones."""
    for entry in sorted(files, key=lambda entry: entry.path.count("/"), reverse=True):
        if not stat.S_ISLNK(entry.mode):
            os.chmod(staging / entry.path, stat.S_IMODE(entry.mode))


def _swap(staging: Path, place: Path) -> None:
    if place.is_dir() and any(place.iterdir()):
        aside = _sibling(place, "old")
        os.rename(place, aside)
        os.rename(staging, place)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.rename(staging, place)  # onto nothing or an empty directory


def _sibling(place: Path, kind: str) -> Path:
    return place.with_name(f".{place.name}.{kind}-{secrets.token_hex(8)}")


def _clear_leftovers(place: Path) -> None:
    """Of restores that were cut short: one target has one restorer at a time, its agent."""
    for kind in ("restore", "old"):
        for leftover in place.parent.glob(f".{place.name}.{kind}-*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _local_trouble() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        no_room = error.errno in NO_ROOM
        raise LocalDiskTrouble(f"cannot write the restored checkpoint: {error}", no_room=no_room) from error
