"""What happens to folders that no program did: renamed, emptied, restored from a backup, filled with strays.

A vault gives back the bytes of the very checkpoint that was asked for, or says what is wrong and what to do.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper.guest_dir import delete_tree
from gpunion.vault.manifest import (
    BLOCK_SIZE_BYTES,
    MANIFEST_BYTES_MAX,
    BadManifest,
    DamagedRecord,
    JobKey,
    Manifest,
    OldEpoch,
    SealedFiles,
    Vault,
    VaultUnavailable,
    WrongKey,
)
from gpunion.vault.stores.folder.caretaker import DirectoryCaretaker
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.operations import FileOperations
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.ship import ship_directory
from gpunion.vault.tree import PATH_LIMIT_BYTES
from gpunion.vault.vault import Hold, MirrorVault
from tests.builders.checkpoints import a_key, a_label, a_manifest, name_of, sealed


def quietly(done: int, total: int) -> None:
    assert done <= total


def open_at(root: Path) -> DirectoryVault:
    return DirectoryVault(root, grace_s=0.0)


def swap(root: Path, one: str, other: str) -> None:
    jobs = root / "jobs"
    (jobs / one).rename(jobs / "between")
    (jobs / other).rename(jobs / one)
    (jobs / "between").rename(jobs / other)


def ids(vault: Vault, job_id: str = "job-1") -> list[str]:
    return [manifest.checkpoint_id for manifest in vault.manifests(job_id)]


def test_a_job_whose_folder_was_swapped_is_given_nothing_of_the_other(tmp_path: Path) -> None:
    vault = open_at(tmp_path)
    sealed(vault, {"w": b"one"}, job_id="job-1", checkpoint_id="c1")
    sealed(vault, {"w": b"two"}, job_id="job-2", checkpoint_id="d1", epoch=7)
    swap(tmp_path, "job-1", "job-2")
    with pytest.raises(BadManifest, match="own names back"):
        vault.latest("job-1")
    assert vault.manifests("job-1") == ()
    with pytest.raises(BadManifest, match=r"folder of job-1 is of job-2.*own names back"):
        vault.begin("job-1", 2)
    with pytest.raises(BadManifest):
        vault.collect_garbage()
    repaired = DirectoryCaretaker(tmp_path).repair(None, None, quietly)
    assert [lost.checkpoint_id for lost in repaired.not_read] == ["d1", "c1"]
    assert (repaired.set_aside, repaired.fences) == ((), ())
    swap(tmp_path, "job-1", "job-2")
    assert (ids(vault, "job-1"), ids(vault, "job-2")) == (["c1"], ["d1"])
    assert DirectoryCaretaker(tmp_path).verify(None, quietly).unreadable == ()


def test_a_manifest_under_another_name_is_not_taken_for_a_newer_one(tmp_path: Path) -> None:
    vault = open_at(tmp_path)
    sealed(vault, {"w": b"old"}, checkpoint_id="c1", step=1)
    sealed(vault, {"w": b"new"}, checkpoint_id="c2", step=2)
    folder = tmp_path / "jobs/job-1/manifests"
    shutil.copy(sorted(folder.iterdir())[0], folder / f"{9:010d}-{9:015d}-c1.json")
    with pytest.raises(BadManifest, match="renamed"):
        vault.latest("job-1")
    assert ids(vault) == ["c1", "c2"]


@pytest.mark.parametrize("left", [b"", b"{}", b"[]", b"\xff\x00"])
def test_a_damaged_epoch_record_is_found_told_and_mended(tmp_path: Path, left: bytes) -> None:
    vault = open_at(tmp_path)
    sealed(vault, {"w": b"one"}, epoch=4)
    (tmp_path / "jobs/job-1/epoch.json").write_bytes(left)
    with pytest.raises(DamagedRecord, match="Next: end what runs of this job, then gpunion vault repair"):
        vault.begin("job-1", 5)
    caretaker = DirectoryCaretaker(tmp_path)
    assert [fence.job_id for fence in caretaker.verify(None, quietly).fences] == ["job-1"]
    assert caretaker.repair(None, None, quietly).fences == (("job-1", 4),)
    assert caretaker.verify(None, quietly).fences == ()
    with pytest.raises(OldEpoch):
        vault.begin("job-1", 3)
    vault.begin("job-1", 5)
    assert ids(vault) == ["job-1-e1-c1"]


def test_an_epoch_record_that_another_one_has_mended_meanwhile_is_not_put_back(tmp_path: Path) -> None:
    vault = open_at(tmp_path)
    sealed(vault, {"w": b"one"}, epoch=4)
    vault.begin("job-1", 6)
    assert vault.mend_epoch("job-1") == 6
    with pytest.raises(OldEpoch):
        vault.begin("job-1", 5)


def test_an_epoch_record_of_an_earlier_version_names_no_job_and_holds(tmp_path: Path) -> None:
    vault = open_at(tmp_path)
    sealed(vault, {"w": b"one"}, epoch=4)
    (tmp_path / "jobs/job-1/epoch.json").write_bytes(b'{"epoch": 6}')
    with pytest.raises(OldEpoch):
        vault.begin("job-1", 5)
    vault.begin("job-1", 7)


def test_where_the_epoch_record_is_gone_no_run_is_let_in_that_is_older_than_what_is_sealed(
    tmp_path: Path,
) -> None:
    vault = open_at(tmp_path)
    sealed(vault, {"w": b"one"}, epoch=4)
    (tmp_path / "jobs/job-1/epoch.json").unlink()
    with pytest.raises(OldEpoch):
        vault.begin("job-1", 3)
    vault.begin("job-1", 4)


def test_what_a_file_server_leaves_in_a_vault_keeps_nobody_from_collecting(tmp_path: Path) -> None:
    vault = open_at(tmp_path)
    manifest = sealed(vault, {"w": b"one"})
    vault.put(name_of(b"garbage"), b"garbage")
    block = tmp_path / "blocks" / name_of(b"one")[:2]
    for stray in (tmp_path / "jobs/.DS_Store", tmp_path / "blocks/.DS_Store", block / ".nfs0001"):
        stray.write_bytes(b"stray")
    for stray in (block / "@eaDir", tmp_path / "blocks/@eaDir", tmp_path / "tmp/@eaDir"):
        stray.mkdir()
        os.utime(stray, (0, 0))
    assert vault.collect_garbage().blocks == 1
    assert DirectoryCaretaker(tmp_path).verify(None, quietly).unreadable == ()
    restore_directory(vault, manifest, tmp_path / "restored")


def test_a_folder_of_manifests_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    """A collector would delete all that its job has."""
    vault = open_at(tmp_path)
    manifest = sealed(vault, {"w": b"one"})
    folder = tmp_path / "jobs/job-1/manifests"
    folder.rename(tmp_path / "elsewhere")
    folder.write_bytes(b"")  # for root no folder is closed; this one can be listed by nobody
    for ask in (vault.collect_garbage, lambda: vault.latest("job-1"), lambda: vault.forget("job-1", 2)):
        with pytest.raises(VaultUnavailable):
            ask()
    folder.unlink()
    (tmp_path / "elsewhere").rename(folder)
    restore_directory(vault, manifest, tmp_path / "restored")


def test_a_job_is_not_saved_that_could_not_be_restored_for_the_length_of_its_paths(tmp_path: Path) -> None:
    vault, source = open_at(tmp_path / "vault"), tmp_path / "source"
    source.mkdir()
    folder = os.open(source, os.O_RDONLY)
    for _ in range(PATH_LIMIT_BYTES // 2 + 1):  # deeper than any recursion goes
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        with pytest.raises(BadManifest, match="could not be restored everywhere"):
            ship_directory(vault, source, a_label())
    finally:
        delete_tree(source)  # nobody else could
    assert vault.latest("job-1") is None


def test_a_file_of_holes_comes_back_with_its_holes(tmp_path: Path) -> None:
    vault, source = open_at(tmp_path / "vault"), tmp_path / "source"
    source.mkdir()
    ends = (10 * BLOCK_SIZE_BYTES + 5, 3 * BLOCK_SIZE_BYTES, 0)
    for number, size_bytes in enumerate(ends):
        with open(source / str(number), "wb") as file:
            file.truncate(size_bytes)
            file.seek(min(size_bytes, 4 * BLOCK_SIZE_BYTES + 7))
            file.write(b"state")
    restore_directory(vault, ship_directory(vault, source, a_label()), tmp_path / "restored")
    for number, _ in enumerate(ends):
        assert (tmp_path / "restored" / str(number)).read_bytes() == (source / str(number)).read_bytes()
    assert (tmp_path / "restored/0").stat().st_blocks * 512 <= 3 * BLOCK_SIZE_BYTES


OTHER_KEY = JobKey(job_id="job-1", secret=b"?" * 32)


@pytest.fixture(params=["directory", "mirrored"])
def keyed(request: pytest.FixtureRequest, tmp_path: Path) -> Vault:
    vault = open_at(tmp_path / "vault")
    if request.param == "directory":
        return vault.keyed(a_key())
    return MirrorVault(DirectoryDesk(vault), tmp_path / "mirror", limit_bytes=10**9).keyed(a_key())


def test_saves_that_the_job_s_key_does_not_open_drive_no_sound_ones_out(keyed: Vault, tmp_path: Path) -> None:
    for number in range(3):
        sealed(keyed, {"w": b"%d" % number}, checkpoint_id=f"c{number}", step=number)
    vault = open_at(tmp_path / "vault")
    sealed(vault.keyed(OTHER_KEY), {"w": b"of another key"}, checkpoint_id="x1", step=10)
    sealed(vault, {"w": b"in the clear"}, checkpoint_id="x2", step=11)
    assert keyed.forget("job-1", 2) == ("c0",)
    assert ids(keyed) == ["c1", "c2"]


def test_a_key_that_opens_nothing_is_told_as_that(keyed: Vault, tmp_path: Path) -> None:
    sealed(open_at(tmp_path / "vault").keyed(OTHER_KEY), {"w": b"one"})
    with pytest.raises(WrongKey, match="encrypted with another key"):
        keyed.manifests("job-1")


class Watched(FileOperations):
    def __init__(self) -> None:
        self.synced: list[Path] = []

    def sync_directories(self, paths: Collection[Path]) -> None:
        self.synced += paths


def test_a_block_of_the_parent_that_was_lost_and_came_again_is_made_durable_too(tmp_path: Path) -> None:
    watched = Watched()
    vault = DirectoryVault(tmp_path, operations=watched)
    sealed(vault, {"w": b"same"}, checkpoint_id="c1", step=1)
    block = vault.blocks.path(name_of(b"same"))
    again: Manifest = a_manifest({"w": b"same"}, checkpoint_id="c2", step=2, parent="c1")
    watched.synced.clear()
    vault.seal(again)
    assert watched.synced == []  # as the parent left it
    block.unlink()
    vault.put(block.name, b"same")
    vault.seal(a_manifest({"w": b"same"}, checkpoint_id="c3", step=3, parent="c2"))
    assert watched.synced == [block.parent]


def test_a_list_of_files_that_no_place_takes_is_refused_and_not_tried_for_ever(tmp_path: Path) -> None:
    vault = open_at(tmp_path)
    vault.begin("job-1", 1)
    body = SealedFiles(key_id="", blocks=(), body="x" * MANIFEST_BYTES_MAX)
    with pytest.raises(BadManifest, match="put many into one") as fault:
        vault.seal(a_manifest({}, sealed=body))
    assert not fault.value.temporary
    assert vault.latest("job-1") is None


def test_a_restore_goes_on_holding_where_the_one_who_keeps_has_started_again(tmp_path: Path) -> None:
    vault = open_at(tmp_path / "vault")
    for number in range(3):
        sealed(vault, {"w": b"%d" % number}, checkpoint_id=f"c{number}", step=number)
    desk = DirectoryDesk(vault)
    hold = Hold(desk, "job-1", "c0")
    for name in list(desk._holds):  # as after a start
        desk.release(name)
    hold.renew()
    assert vault.forget("job-1", 2) == ()
    hold.release()
    assert vault.forget("job-1", 2) == ("c0",)
    hold.renew()  # too late, and nobody's trouble
