"""A directory vault with no space left: nothing sealed is touched, and there is a way out."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from blake3 import blake3

from gpunion.vault.manifest import BLOCK_SIZE_BYTES, Manifest, VaultFull, VaultUnavailable
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.operations import FileOperations
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.ship import ship_directory
from tests.builders.checkpoints import a_label


class LimitedDisk(FileOperations):
    """A disk that takes so many bytes and then answers as a full one does, with half a file written."""

    def __init__(self, free_bytes: int, error: int = errno.ENOSPC) -> None:
        self.free_bytes = free_bytes
        self.error = error

    def write_new(self, path: Path, data: bytes | memoryview) -> None:
        if len(data) > self.free_bytes:
            path.write_bytes(data[: self.free_bytes])
            raise OSError(self.error, os.strerror(self.error))
        self.free_bytes -= len(data)
        super().write_new(path, data)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 24 MiB, where we may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "gpunion-test", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def noise(path: Path, blocks: int, seed: int) -> Path:
    path.mkdir(exist_ok=True)
    (path / "weights").write_bytes(random.Random(seed).randbytes(blocks * BLOCK_SIZE_BYTES))
    return path


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_quota_is_a_temporary_fault_that_leaves_nothing_half_done(
    tmp_path: Path, error: int
) -> None:
    DirectoryVault(tmp_path / "vault")
    disk = LimitedDisk(2 * BLOCK_SIZE_BYTES + 1000, error)
    vault = DirectoryVault(tmp_path / "vault", operations=disk)
    source = noise(tmp_path / "source", 4, seed=1)
    with pytest.raises(VaultFull) as fault:
        ship_directory(vault, source, a_label())
    assert fault.value.temporary
    assert vault.latest("job-1") is None
    assert list((tmp_path / "vault" / "tmp").iterdir()) == []
    disk.free_bytes = 10 * BLOCK_SIZE_BYTES
    restore_directory(vault, ship_directory(vault, source, a_label()), tmp_path / "restored")
    assert (tmp_path / "restored" / "weights").read_bytes() == (source / "weights").read_bytes()


def test_other_errors_of_the_disk_make_the_vault_unavailable(tmp_path: Path) -> None:
    DirectoryVault(tmp_path / "vault")
    vault = DirectoryVault(tmp_path / "vault", operations=LimitedDisk(0, errno.EIO))
    with pytest.raises(VaultUnavailable) as fault:
        vault.begin("job-1", 1)
    assert fault.value.temporary


def test_on_a_really_full_disk_old_checkpoints_can_be_restored_and_make_room(
    small_disk: Path, tmp_path: Path
) -> None:
    vault = DirectoryVault(small_disk / "vault", grace_s=0.0)
    sources = [noise(tmp_path / f"source{seed}", 1, seed) for seed in range(12)]
    done: list[Manifest] = []

    def ship_all() -> None:
        for step, source in enumerate(sources):
            done.append(ship_directory(vault, source, a_label(checkpoint_id=f"c{step}", step=step)))

    with pytest.raises(VaultFull):
        ship_all()
    assert vault.manifests("job-1") == tuple(done)
    restore_directory(vault, done[0], tmp_path / "restored")
    assert (tmp_path / "restored" / "weights").read_bytes() == (sources[0] / "weights").read_bytes()
    assert len(vault.forget("job-1", keep=2)) == len(done) - 2
    assert vault.collect_garbage().blocks >= len(done) - 2
    step = len(done)
    ship_directory(vault, sources[step], a_label(checkpoint_id=f"c{step}", step=step))


def test_a_vault_whose_disk_went_away_is_unavailable_and_not_made_anew(tmp_path: Path) -> None:
    vault = DirectoryVault(tmp_path / "vault")
    vault.begin("job-1", 1)
    (tmp_path / "vault").rename(tmp_path / "unmounted")
    with pytest.raises(VaultUnavailable):
        vault.begin("job-1", 1)
    with pytest.raises(VaultUnavailable):
        DirectoryVault(tmp_path / "vault", create=False)
    assert not (tmp_path / "vault").exists()


@pytest.mark.parametrize("content", ["{", '{"format": 99}'])
def test_a_directory_that_is_no_vault_of_ours_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "vault.json").write_text(content)
    with pytest.raises(VaultUnavailable):
        DirectoryVault(tmp_path)


def test_a_real_disk_without_room_for_a_beginning_says_so_until_there_is(small_disk: Path) -> None:
    desk = DirectoryDesk(DirectoryVault(small_disk / "vault"))
    desk.check_room()
    fill(small_disk / "filling")
    with pytest.raises(VaultFull, match=r"no room is left .*\. Next: .*gpunion vault ls"):
        desk.check_room()
    (small_disk / "filling").unlink()
    desk.check_room()


def test_a_real_disk_that_can_only_be_read_says_so_and_is_read(small_disk: Path, tmp_path: Path) -> None:
    vault = DirectoryVault(small_disk / "vault")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "weights").write_bytes(b"weights")
    manifest = ship_directory(vault, tmp_path / "source", a_label())
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    try:
        with pytest.raises(VaultUnavailable, match="can only be read"):
            DirectoryDesk(DirectoryVault(small_disk / "vault")).check_room()
        restore_directory(vault, manifest, tmp_path / "restored")
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    DirectoryDesk(vault).check_room()


def test_a_full_vault_from_which_jobs_are_kept_away_is_cleared_of_garbage(small_disk: Path) -> None:
    vault = DirectoryVault(small_disk / "vault")
    desk = DirectoryDesk(vault)
    data = os.urandom(4 * 1024**2)
    vault.put(blake3(data).hexdigest(), data)  # of a save that came to nothing, a minute ago
    age(vault.stored(), 60.0)
    fill(small_disk / "filling")
    desk.check_room()
    assert list(vault.stored()) == []
    fill(small_disk / "filling")
    with pytest.raises(VaultFull):
        desk.check_room()  # not every time: it reads the whole vault
    (small_disk / "filling").unlink()
    vault.put(blake3(data).hexdigest(), data)
    age(vault.stored(), 60.0)
    assert desk.collect_garbage().blocks == 1  # who asks a desk for it has found no room


def test_who_has_no_room_gets_that_of_forgotten_saves_at_once_and_of_uploads_under_way_nothing(
    tmp_path: Path,
) -> None:
    vault = DirectoryVault(tmp_path / "vault")
    source = tmp_path / "source"
    source.mkdir()
    for step in range(4):
        (source / "weights").write_bytes(os.urandom(3 * 1024**2))
        ship_directory(vault, source, a_label(checkpoint_id=f"c{step}", step=step))
    assert len(vault.forget("job-1", keep=2)) == 2
    data = os.urandom(1024**2)
    age(vault.stored(), 120.0)
    vault.begin("job-2", 1)
    age([vault.shelves()[1].begun], 90.0)
    vault.put(blake3(data).hexdigest(), data)
    age([vault.blocks.path(blake3(data).hexdigest())], 60.0)
    assert vault.collect_garbage().blocks == 0
    assert vault.collect_garbage(in_need=True).blocks == 2
    assert vault.has([blake3(data).hexdigest()])
    for manifest in vault.manifests("job-1"):
        restore_directory(vault, manifest, tmp_path / "restored")


def age(paths: Iterable[Path], by_s: float) -> None:
    for path in list(paths):
        os.utime(path, (0, os.stat(path).st_mtime - by_s))


def fill(file: Path) -> None:
    with suppress(OSError), open(file, "wb", buffering=0) as filling:
        while filling.write(bytes(1024**2)):
            pass
