"""Directories into a vault and out again."""

from __future__ import annotations

import os
import random
import resource
import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.vault.manifest import (
    BLOCK_SIZE_BYTES,
    BadManifest,
    CheckpointTorn,
    CorruptBlock,
    FileEntry,
    LocalDiskTrouble,
    MissingBlock,
    OldEpoch,
    ShipCancelled,
    UnknownCheckpoint,
    Vault,
)
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.ship import ship_directory
from tests.builders.checkpoints import a_label, a_manifest, name_of, sealed
from tests.contract.vault.conftest import Place


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "checkpoint"
    (root / "step-10" / "empty").mkdir(parents=True)
    (root / "step-10" / "weights").write_bytes(random.Random(1).randbytes(3 * BLOCK_SIZE_BYTES + 17))
    (root / "step-10" / "nothing").write_bytes(b"")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "latest").symlink_to("step-10")
    return root


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in sorted(root.rglob("*")):
        about = path.lstat()
        content = (
            os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        )
        found[path.relative_to(root).as_posix()] = (about.st_mode, content)
    return found


def test_what_comes_out_is_what_went_in(vault: Vault, source: Path, tmp_path: Path) -> None:
    manifest = ship_directory(vault, source, a_label())
    assert vault.latest("job-1") == manifest
    restore_directory(vault, manifest, tmp_path / "restored")
    assert tree(tmp_path / "restored") == tree(source)


def test_only_the_named_files_and_what_is_in_named_directories_are_taken(
    vault: Vault, source: Path, tmp_path: Path
) -> None:
    manifest = ship_directory(vault, source, a_label(), files=["step-10"])
    assert [entry.path for entry in manifest.files] == [
        "step-10",
        "step-10/empty",
        "step-10/nothing",
        "step-10/weights",
    ]
    single = ship_directory(
        vault, source, a_label(checkpoint_id="single", step=11), files=["step-10/nothing", "run.sh"]
    )
    restore_directory(vault, single, tmp_path / "restored")
    assert (tmp_path / "restored" / "step-10" / "nothing").exists()
    assert not (tmp_path / "restored" / "step-10" / "weights").exists()


def test_the_second_checkpoint_sends_only_what_changed(vault: Vault, source: Path) -> None:
    first = ship_directory(vault, source, a_label())
    with open(source / "step-10" / "weights", "r+b") as file:
        file.seek(BLOCK_SIZE_BYTES + 5)
        file.write(b"changed")
    sent: list[int] = []
    label = a_label(checkpoint_id="job-1-e1-c2", step=20)
    second = ship_directory(vault, source, label, parent=first.checkpoint_id, pace=sent.append)
    assert len(sent) == 1
    assert second.new_bytes == sum(sent) < first.new_bytes
    assert (second.parent, second.total_bytes) == (first.checkpoint_id, first.total_bytes)


def test_a_cancelled_upload_seals_nothing(vault: Vault, source: Path) -> None:
    answers = iter([False, False, True])
    with pytest.raises(ShipCancelled):
        ship_directory(vault, source, a_label(), cancelled=lambda: next(answers, True))
    assert vault.latest("job-1") is None


def test_an_upload_of_an_old_epoch_sends_nothing(vault: Vault, source: Path) -> None:
    vault.begin("job-1", 2)
    sent: list[int] = []
    with pytest.raises(OldEpoch):
        ship_directory(vault, source, a_label(), pace=sent.append)
    assert sent == []


@pytest.mark.parametrize("change", ["append", "truncate", "replace", "delete", "rewrite"])
def test_a_file_that_changes_while_it_is_read_tears_the_checkpoint(
    vault: Vault, source: Path, change: str
) -> None:
    weights = source / "step-10" / "weights"
    os.utime(weights, (1000.0, 1000.0))  # so that a change shows however coarse the clock is
    changes = [change]

    def meddle() -> bool:
        match changes.pop() if changes else "":
            case "append":
                with open(weights, "ab") as file:
                    file.write(b"more")
            case "truncate":
                os.truncate(weights, 10)
            case "replace":
                (source / "other").write_bytes(weights.read_bytes())
                (source / "other").rename(weights)
            case "delete":
                weights.unlink()
            case "rewrite":
                with open(weights, "r+b") as file:
                    file.write(b"other")
            case _:
                pass
        return False

    with pytest.raises(CheckpointTorn) as fault:
        ship_directory(vault, source, a_label(), files=["run.sh", "step-10/weights"], cancelled=meddle)
    assert fault.value.temporary
    assert vault.latest("job-1") is None


def test_a_named_file_that_is_not_there_tears_the_checkpoint(vault: Vault, source: Path) -> None:
    with pytest.raises(CheckpointTorn):
        ship_directory(vault, source, a_label(), files=["absent"])


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "step-10/../../secret"])
def test_a_link_that_leads_out_of_the_checkpoint_is_refused(vault: Vault, source: Path, target: str) -> None:
    (source / "trap").symlink_to(target)
    with pytest.raises(BadManifest):
        ship_directory(vault, source, a_label())


def test_no_file_of_the_host_is_read_through_a_directory_that_is_a_link(
    vault: Vault, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    (source / "door").symlink_to(tmp_path / "private")
    with pytest.raises(BadManifest):
        ship_directory(vault, source, a_label(), files=["door/key"])
    with pytest.raises(BadManifest):
        ship_directory(vault, source, a_label(), files=["../private/key"])


def test_pipes_and_sockets_hold_no_state_and_block_nobody(
    vault: Vault, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(source)  # the address of a socket must be short
        listener.bind("socket")
        manifest = ship_directory(vault, source, a_label())
    assert {"pipe", "socket"}.isdisjoint(entry.path for entry in manifest.files)
    with pytest.raises(BadManifest):
        ship_directory(vault, source, a_label(checkpoint_id="named"), files=["pipe"])


def test_a_restore_replaces_what_is_there(vault: Vault, source: Path, tmp_path: Path) -> None:
    manifest = ship_directory(vault, source, a_label())
    target = tmp_path / "restored"
    target.mkdir()
    restore_directory(vault, manifest, target)
    (target / "later").write_text("of a run that was lost")
    restore_directory(vault, manifest, target)
    assert tree(target) == tree(source)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_restore_from_a_damaged_vault_shows_nothing(place: Place, source: Path, tmp_path: Path) -> None:
    vault = place.open()
    manifest = ship_directory(vault, source, a_label())
    target = tmp_path / "restored"
    target.mkdir()
    (target / "before").write_text("kept")
    weights = next(entry for entry in manifest.files if entry.path == "step-10/weights")
    place.damage_block(weights.blocks[2])
    with pytest.raises(CorruptBlock):
        restore_directory(vault, manifest, target)
    assert [path.name for path in target.iterdir()] == ["before"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_forgotten_checkpoint_is_not_restored(vault: Vault, tmp_path: Path) -> None:
    manifests = [sealed(vault, {"f": b"%d" % step}, checkpoint_id=f"c{step}", step=step) for step in range(3)]
    vault.forget("job-1", keep=2)
    with pytest.raises(UnknownCheckpoint):
        restore_directory(vault, manifests[0], tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_checkpoint_being_restored_survives_forgetting_and_collecting(place: Place, tmp_path: Path) -> None:
    vault = place.open()
    manifests = [
        sealed(vault, {"a": b"a%d" % step, "b": b"b%d" % step}, checkpoint_id=f"c{step}", step=step)
        for step in range(3)
    ]

    class Tidying:
        """A vault in which somebody else tidies up before every read."""

        def __getattr__(self, name: str) -> object:
            return getattr(vault, name)

        def lend_block(self, block_hash: str) -> bytes | memoryview:
            place.open().forget("job-1", keep=2)
            place.open().collect_garbage()
            return vault.lend_block(block_hash)

    restore_directory(Tidying(), manifests[0], tmp_path / "restored")  # type: ignore[arg-type]
    assert (tmp_path / "restored" / "b").read_bytes() == b"b0"
    Tidying().lend_block(name_of(b"a1"))  # now nobody holds it
    with pytest.raises(UnknownCheckpoint):
        restore_directory(vault, manifests[0], tmp_path / "again")


def test_a_forged_manifest_cannot_write_outside(vault: Vault, tmp_path: Path) -> None:
    manifest = sealed(vault, {"f": b"abc"})
    forged = replace(manifest, files=(replace(manifest.files[0], path="../escaped"),))
    with pytest.raises(BadManifest):
        restore_directory(vault, forged, tmp_path / "restored")
    assert not (tmp_path / "escaped").exists()


def test_a_forged_link_cannot_lead_outside(vault: Vault, tmp_path: Path) -> None:
    target = b"/etc/passwd"
    vault.put(name_of(target), target)
    link = FileEntry(path="l", size_bytes=len(target), mode=stat.S_IFLNK | 0o777, blocks=(name_of(target),))
    manifest = a_manifest({}, files=(link,), total_bytes=len(target))
    vault.begin("job-1", 1)
    vault.seal(manifest)
    with pytest.raises(BadManifest):
        restore_directory(vault, manifest, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_lying_size_is_found(vault: Vault, tmp_path: Path) -> None:
    manifest = sealed(vault, {"f": b"abc"})
    lying = replace(manifest, files=(replace(manifest.files[0], size_bytes=2),), total_bytes=2)
    with pytest.raises(CorruptBlock):
        restore_directory(vault, lying, tmp_path / "restored")


def test_a_target_that_cannot_be_written_is_our_disks_trouble(vault: Vault, tmp_path: Path) -> None:
    manifest = sealed(vault, {"f": b"abc"})
    with pytest.raises(LocalDiskTrouble) as fault:
        restore_directory(vault, manifest, tmp_path / "no" / "such" / "place")
    assert fault.value.temporary


def test_a_disk_without_room_says_so_before_anything_is_fetched(place: Place, tmp_path: Path) -> None:
    vault = place.open()
    manifest = sealed(vault, {"f": bytes(4096)})
    fetched: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(vault, name)

        def lend_block(self, block_hash: str) -> bytes | memoryview:
            fetched.append(block_hash)
            return vault.lend_block(block_hash)

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(LocalDiskTrouble):
            restore_directory(Watched(), manifest, tmp_path / "restored")  # type: ignore[arg-type]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert fetched == []
    assert not (tmp_path / "restored").exists()


def test_a_missing_block_is_named(place: Place, tmp_path: Path) -> None:
    vault = place.open()
    manifest = sealed(vault, {"f": b"abc"})

    class Empty:
        def __getattr__(self, name: str) -> object:
            return getattr(vault, name)

        def lend_block(self, block_hash: str) -> bytes:
            raise MissingBlock(block_hash)

    with pytest.raises(MissingBlock):
        restore_directory(Empty(), manifest, tmp_path / "restored")  # type: ignore[arg-type]
    assert not (tmp_path / "restored").exists()
