"""From a directory into any vault: hash, ask what is there, put only what is missing, seal.

The directory belongs to a guest, which may do anything to it meanwhile. So no link is followed on the way to
a file, nothing but files, directories and inward links is taken, and a file that changes between the first
look at it and the seal makes the checkpoint torn instead of wrong.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import RawIOBase

from blake3 import blake3

from gpunion.adapters.files.manifests import FILES_MAX, PERMISSIONS, check_link, check_path
from gpunion.ports.vault import (
    BLOCK_SIZE_BYTES,
    BadManifest,
    CheckpointLabel,
    CheckpointTorn,
    FileEntry,
    LocalDiskTrouble,
    Manifest,
    ShipCancelled,
    Vault,
)

BATCH_BLOCKS = 16  # one question to the vault for so many, and at most so many in memory

Signature = tuple[int, int, int, int]


def ship_directory(
    vault: Vault,
    directory: str | os.PathLike[str],
    label: CheckpointLabel,
    *,
    parent: str | None = None,
    files: Iterable[str] | None = None,
    pace: Callable[[int], None] = lambda stored_bytes: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Manifest:
    """Make the directory (or just `files`, relative paths in it) a sealed checkpoint and return its manifest.

    `pace` is told after each block how many bytes went out, and may wait. Nothing is sealed when this raises.
    """
    vault.begin(label.job_id, label.epoch)
    upload = _Upload(vault, pace, cancelled)
    with _local_trouble():
        root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            paths = sorted(_walk(root, None) if files is None else _named(root, files))
            if len(paths) > FILES_MAX:
                raise BadManifest(f"more than {FILES_MAX} files in one checkpoint")
            signatures = {path: _signature(_look(root, path)) for path in paths}
            entries = tuple(_ship_entry(root, path, upload) for path in paths)
            upload.flush()
            for path, signature in signatures.items():
                if _signature(_look(root, path)) != signature:
                    raise CheckpointTorn(f"{path} changed while the checkpoint was read")
        finally:
            os.close(root)
    manifest = Manifest(
        **asdict(label),
        parent=parent,
        files=entries,
        block_size_bytes=BLOCK_SIZE_BYTES,
        total_bytes=sum(entry.size_bytes for entry in entries),
        new_bytes=upload.stored_bytes,
    )
    if cancelled():
        raise ShipCancelled(f"{label.checkpoint_id} is no longer wanted")
    vault.seal(manifest)
    return manifest


class _Upload:
    """Collects blocks until there are enough for one question to the vault."""

    def __init__(self, vault: Vault, pace: Callable[[int], None], cancelled: Callable[[], bool]) -> None:
        self._vault = vault
        self._pace = pace
        self._cancelled = cancelled
        self._waiting: dict[str, bytes] = {}
        self._there: set[str] = set()
        self.stored_bytes = 0

    def add(self, data: bytes) -> str:
        if self._cancelled():
            raise ShipCancelled("the checkpoint is no longer wanted")
        name = blake3(data).hexdigest()
        if name not in self._there:
            self._waiting[name] = data
            if len(self._waiting) >= BATCH_BLOCKS:
                self.flush()
        return name

    def flush(self) -> None:
        present = self._vault.has(self._waiting)
        for name, data in self._waiting.items():
            if name not in present:
                if self._cancelled():
                    raise ShipCancelled("the checkpoint is no longer wanted")
                stored_bytes = self._vault.put(name, data)
                self.stored_bytes += stored_bytes
                self._pace(stored_bytes)
        self._there |= self._waiting.keys()
        self._waiting.clear()


def _ship_entry(root: int, path: str, upload: _Upload) -> FileEntry:
    with _parent_of(root, path) as (folder, name):
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind, mode = stat.S_IFMT(about.st_mode), about.st_mode & PERMISSIONS
        if kind == stat.S_IFDIR:
            return FileEntry(path=path, size_bytes=0, mode=kind | mode, blocks=())
        if kind == stat.S_IFLNK:
            target = os.readlink(name, dir_fd=folder)
            check_link(path, target)
            data = os.fsencode(target)
            return FileEntry(path=path, size_bytes=len(data), mode=kind | mode, blocks=(upload.add(data),))
        if kind != stat.S_IFREG:
            raise BadManifest(f"{path!r} is neither a file nor a directory")
        # Not blocking: it may have become a pipe since. What was opened is looked at again.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with open(descriptor, "rb", buffering=0) as file:
        if _signature(os.fstat(descriptor)) != _signature(about):
            raise CheckpointTorn(f"{path} changed while the checkpoint was read")
        blocks = tuple(upload.add(data) for data in _blocks(file, about.st_size))
    return FileEntry(path=path, size_bytes=about.st_size, mode=kind | mode, blocks=blocks)


def _blocks(file: RawIOBase, size_bytes: int) -> Iterator[bytes]:
    """Exactly `size_bytes`: what is appended meanwhile is found by the last look, what is cut off here."""
    left_bytes = size_bytes
    while left_bytes > 0:
        data = _read_fully(file, min(left_bytes, BLOCK_SIZE_BYTES))
        if len(data) < min(left_bytes, BLOCK_SIZE_BYTES):
            raise CheckpointTorn("a file became shorter while the checkpoint was read")
        left_bytes -= len(data)
        yield data


def _read_fully(file: RawIOBase, wanted_bytes: int) -> bytes:
    parts = []
    while wanted_bytes > 0:
        part = file.read(wanted_bytes)
        if not part:
            break
        parts.append(part)
        wanted_bytes -= len(part)
    return b"".join(parts)


def _walk(root: int, start: str | None) -> Iterator[str]:
    """Every path under `start`, directories included, links not followed. Sockets and pipes hold no state."""
    with _folder(root, start) as folder:
        names = sorted(os.listdir(folder))
        kinds = {name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode for name in names}
    for name, mode in kinds.items():
        path = name if start is None else f"{start}/{name}"
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            yield path
        elif stat.S_ISDIR(mode):
            yield path
            yield from _walk(root, path)


def _named(root: int, files: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in files:
        check_path(path)
        found.add(path)
        if stat.S_ISDIR(_look(root, path).st_mode):
            found.update(_walk(root, path))
    return found


def _look(root: int, path: str) -> os.stat_result:
    with _parent_of(root, path) as (folder, name):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _signature(about: os.stat_result) -> Signature:
    if stat.S_ISDIR(about.st_mode):
        return (about.st_ino, 0, 0, 0)  # what matters of a directory is in its entries
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


@contextmanager
def _parent_of(root: int, path: str) -> Iterator[tuple[int, str]]:
    parent, _, name = path.rpartition("/")
    with _folder(root, parent or None) as folder:
        yield folder, name


@contextmanager
def _folder(root: int, path: str | None) -> Iterator[int]:
    """A descriptor of a directory inside, reached step by step so that no link can lead elsewhere."""
    folder = os.dup(root)
    try:
        for part in path.split("/") if path else ():
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _local_trouble() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointTorn(f"{error.filename} is not there, or no longer") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise BadManifest(f"{error.filename} leads through a link") from error
        raise LocalDiskTrouble(f"cannot read the checkpoint: {error}") from error
