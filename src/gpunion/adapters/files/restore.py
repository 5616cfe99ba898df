"""From any vault into a directory: every block verified, and the directory appears whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpunion.adapters.files.manifests import check, check_link
from gpunion.ports.vault import CorruptBlock, FileEntry, LocalDiskTrouble, Manifest, Vault


def restore_directory(vault: Vault, manifest: Manifest, target: str | os.PathLike[str]) -> None:
    """Put the checkpoint at `target`, in place of what is there. Cut short anywhere, `target` is as it was.

    (While an old directory is being replaced there is a moment with none; never one with a part.)
    """
    check(manifest)
    place = Path(target)
    with vault.hold(manifest.job_id, manifest.checkpoint_id), _local_trouble():
        _clear_leftovers(place)
        staging = _sibling(place, "restore")
        staging.mkdir(mode=0o700)
        try:
            for entry in manifest.files:
                _restore_entry(vault, entry, staging)
            _restore_links(vault, manifest, staging)
            _set_directories(manifest, staging)
            _swap(staging, place)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise


def _restore_entry(vault: Vault, entry: FileEntry, staging: Path) -> None:
    """Links come last of all, in `_restore_links`: until then nothing here can lead outside."""
    path = staging / entry.path
    if stat.S_ISDIR(entry.mode):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not stat.S_ISREG(entry.mode):
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "xb") as file:
        for block in entry.blocks:
            file.write(vault.read_block(block))
        if file.tell() != entry.size_bytes:
            raise CorruptBlock(f"{entry.path} came out with another size than its manifest says")
        os.fchmod(file.fileno(), stat.S_IMODE(entry.mode))
        file.flush()
        os.fsync(file.fileno())


def _restore_links(vault: Vault, manifest: Manifest, staging: Path) -> None:
    for entry in manifest.files:
        if stat.S_ISLNK(entry.mode):
            link = os.fsdecode(b"".join(vault.read_block(block) for block in entry.blocks))
            check_link(entry.path, link)
            (staging / entry.path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.symlink(link, staging / entry.path)


def _set_directories(manifest: Manifest, staging: Path) -> None:
    """Permissions from the inside out, since one that forbids writing would keep us from the inner ones."""
    for directory, _, _ in os.walk(staging, topdown=False):
        _sync(Path(directory))
    for entry in sorted(manifest.files, key=lambda entry: entry.path.count("/"), reverse=True):
        if stat.S_ISDIR(entry.mode):
            os.chmod(staging / entry.path, stat.S_IMODE(entry.mode))


def _swap(staging: Path, place: Path) -> None:
    if place.is_dir() and any(place.iterdir()):
        aside = _sibling(place, "old")
        os.rename(place, aside)
        os.rename(staging, place)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.rename(staging, place)  # onto nothing or an empty directory
    _sync(place.parent)


def _sibling(place: Path, kind: str) -> Path:
    return place.with_name(f".{place.name}.{kind}-{secrets.token_hex(8)}")


def _clear_leftovers(place: Path) -> None:
    """Of restores that were cut short: one target has one restorer at a time, its agent."""
    for kind in ("restore", "old"):
        for leftover in place.parent.glob(f".{place.name}.{kind}-*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _local_trouble() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocalDiskTrouble(f"cannot write the restored checkpoint: {error}") from error
