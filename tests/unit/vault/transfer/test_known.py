"""Files that need not be read again, and all those that must be."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from gpunion.vault.manifest import CheckpointLabel, Manifest
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.known import HONEST_KINDS, JOBS_MAX, Known, KnownFiles, kind_of
from gpunion.vault.transfer.ship import ship_directory

LONG_AGO = 1_000_000_000.0


class CountingVault(DirectoryVault):
    """Every block that was read for a save passes through `put`, new or not."""

    offered = 0

    def put(self, block_hash: str, data: bytes | memoryview, *, named: bool = False) -> int:
        self.offered += 1
        return super().put(block_hash, data, named=named)


class Saving:
    def __init__(self, folder: Path) -> None:
        self.vault = CountingVault(folder / "vault", grace_s=0.0)
        self.known = KnownFiles()
        self.folder = folder
        self.source = folder / "source"
        self.source.mkdir()
        self.file = self.source / "base"
        self.file.write_bytes(b"frozen")
        os.utime(self.file, (LONG_AGO, LONG_AGO))
        self.saves = 0

    def save(self) -> int:
        """How many blocks had to be read."""
        self.vault.offered = 0
        self.saves += 1
        label = CheckpointLabel(
            checkpoint_id=f"c{self.saves}",
            job_id="job-1",
            epoch=1,
            step=self.saves,
            progress=0.0,
            tier="app",
            created_s=0.0,
        )
        self.told: list[tuple[int, int]] = []
        self.manifest: Manifest = ship_directory(
            self.vault, self.source, label, known=self.known, told=lambda *done: self.told.append(done)
        )
        return self.vault.offered

    def restored(self) -> bytes:
        restore_directory(self.vault, self.manifest, self.folder / "restored")
        return (self.folder / "restored" / "base").read_bytes()


@pytest.fixture
def saving(tmp_path: Path) -> Saving:
    if kind_of(tmp_path.stat().st_dev) not in HONEST_KINDS:
        pytest.skip("on this file system every file is read every time")
    return Saving(tmp_path)


def test_a_file_is_trusted_after_a_second_reading(saving: Saving) -> None:
    for blocks_read in (1, 1, 0, 0):
        assert saving.save() == blocks_read
        assert saving.told == [(0, 6), (6, 6)]  # what is trusted is done as well
    assert saving.restored() == b"frozen"


def test_a_link_to_the_same_file_is_the_same_file(saving: Saving) -> None:
    """That is how an agent sets a checkpoint aside, which changes the file's change time."""
    for number in range(2):
        saving.save()
        os.link(saving.file, saving.folder / f"link{number}")
    assert saving.save() == 0


@pytest.mark.parametrize("change", ["write", "replace", "mmap", "append"])
def test_a_changed_file_is_read_again(saving: Saving, change: str) -> None:
    for _ in range(3):
        saving.save()
    if change == "write":
        with open(saving.file, "r+b") as file:
            file.write(b"THAWED")
    elif change == "append":
        with open(saving.file, "r+b") as file:
            file.seek(0, os.SEEK_END)
            file.write(b" THAWED")
    elif change == "replace":
        other = saving.source / "other"
        other.write_bytes(b"THAWED")
        other.rename(saving.file)
    else:
        with open(saving.file, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[:] = b"THAWED"
    assert saving.save() == 1
    assert saving.restored() == saving.file.read_bytes()


def test_a_file_kept_mapped_and_dirty_is_not_missed(saving: Saving) -> None:
    with open(saving.file, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        for number in range(6):
            memory[:] = b"step %d" % number
            saving.save()
            assert saving.restored() == saving.file.read_bytes()


def test_a_file_touched_within_the_clocks_tick_is_not_trusted(saving: Saving) -> None:
    os.utime(saving.file, (time.time(), time.time()))
    assert [saving.save() for _ in range(4)] == [1, 1, 1, 1]


def test_a_trusted_file_whose_blocks_are_gone_is_read_and_sent_again(saving: Saving) -> None:
    for _ in range(3):
        saving.save()
    for path in (saving.folder / "vault" / "blocks").rglob("*"):
        if path.is_file():
            path.unlink()
    assert saving.save() == 1
    assert saving.restored() == b"frozen"


def test_another_agent_knows_nothing(saving: Saving) -> None:
    for _ in range(3):
        saving.save()
    saving.known = KnownFiles()
    assert saving.save() == 1


def test_the_memory_is_bounded(tmp_path: Path) -> None:
    known = KnownFiles()
    about = tmp_path.stat()
    look = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
    for number in range(JOBS_MAX + 1):
        known.learn(f"job-{number}", {"f": Known(look=look, blocks=(), proven=True)})
    assert known.find("job-0", "f", about) is None
    assert known.find("job-1", "f", about) is not None
