"""What a checkpoint called durable may rely on, whichever vault keeps it."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from gpunion.vault.manifest import (
    BLOCK_SIZE_BYTES,
    BadManifest,
    CorruptBlock,
    FileEntry,
    MissingBlock,
    OldEpoch,
    UnknownCheckpoint,
    Vault,
)
from tests.builders.checkpoints import a_manifest, name_of, sealed
from tests.contract.vault.conftest import Place

ABSENT = "0" * 64


def test_a_sealed_checkpoint_is_found_by_another_machine(place: Place) -> None:
    manifest = sealed(place.open(), {"weights": b"abc"})
    other = place.open()
    assert other.latest("job-1") == manifest
    assert other.get("job-1", "job-1-e1-c1") == manifest
    assert other.manifests("job-1") == (manifest,)
    assert other.read_block(manifest.files[0].blocks[0]) == b"abc"


def test_a_job_nobody_saved_has_no_checkpoint(vault: Vault) -> None:
    assert vault.latest("job-1") is None
    assert vault.manifests("job-1") == ()
    assert vault.forget("job-1", keep=2) == ()
    with pytest.raises(UnknownCheckpoint):
        vault.get("job-1", "c")
    with pytest.raises(UnknownCheckpoint), vault.hold("job-1", "c"):
        pass


def test_an_older_epoch_may_not_begin(place: Place) -> None:
    place.open().begin("job-1", 5)
    with pytest.raises(OldEpoch) as fault:
        place.open().begin("job-1", 4)
    assert not fault.value.temporary
    place.open().begin("job-1", 5)
    place.open("another").begin("another", 1)


def test_an_older_epoch_may_not_seal_even_when_it_began_first(vault: Vault) -> None:
    manifest = a_manifest({"weights": b"abc"}, epoch=1)
    vault.begin("job-1", 1)
    vault.put(name_of(b"abc"), b"abc")
    vault.begin("job-1", 2)
    with pytest.raises(OldEpoch):
        vault.seal(manifest)
    assert vault.latest("job-1") is None


def test_a_checkpoint_with_a_missing_block_is_not_sealed(vault: Vault) -> None:
    vault.begin("job-1", 1)
    with pytest.raises(MissingBlock):
        vault.seal(a_manifest({"weights": b"never put"}))
    assert vault.latest("job-1") is None


def test_sealing_the_same_again_is_fine_even_for_an_epoch_that_became_old(vault: Vault) -> None:
    manifest = sealed(vault, {"weights": b"abc"})
    vault.begin("job-1", 2)
    vault.seal(manifest)
    assert vault.manifests("job-1") == (manifest,)


def test_another_content_under_a_sealed_id_is_refused(vault: Vault) -> None:
    manifest = sealed(vault, {"weights": b"abc"})
    with pytest.raises(BadManifest):
        vault.seal(replace(manifest, step=11))
    assert vault.latest("job-1") == manifest


def test_the_latest_has_the_highest_epoch_then_step_in_whatever_order_they_came(vault: Vault) -> None:
    sealed(vault, {}, checkpoint_id="a", epoch=1, step=900)
    sealed(vault, {}, checkpoint_id="b", epoch=2, step=100)
    sealed(vault, {}, checkpoint_id="c", epoch=2, step=30)
    latest = vault.latest("job-1")
    assert latest is not None
    assert latest.checkpoint_id == "b"
    assert [manifest.checkpoint_id for manifest in vault.manifests("job-1")] == ["a", "c", "b"]


def test_a_block_is_stored_once(vault: Vault) -> None:
    data = b"x" * 1000
    assert vault.has([name_of(data)]) == set()
    assert vault.put(name_of(data), data) > 0
    assert vault.put(name_of(data), data) == 0
    assert vault.has([name_of(data), ABSENT]) == {name_of(data)}


def test_a_block_under_a_wrong_name_or_too_large_is_refused(vault: Vault) -> None:
    with pytest.raises(CorruptBlock):
        vault.put(name_of(b"abc"), b"abd")
    large = b"x" * (BLOCK_SIZE_BYTES + 1)
    with pytest.raises(CorruptBlock):
        vault.put(name_of(large), large)


def test_a_damaged_block_is_never_returned(place: Place) -> None:
    data = bytes(range(256)) * 100
    vault = place.open()
    vault.put(name_of(data), data)
    place.damage_block(name_of(data))
    with pytest.raises(CorruptBlock):
        vault.read_block(name_of(data))


def test_an_absent_block_is_named_missing(vault: Vault) -> None:
    with pytest.raises(MissingBlock):
        vault.read_block(ABSENT)


def test_a_damaged_manifest_is_told_left_out_and_keeps_the_collector_from_guessing(place: Place) -> None:
    vault = place.open()
    manifest = sealed(vault, {"weights": b"abc"})
    place.damage_manifests()
    with pytest.raises(BadManifest):
        vault.latest("job-1")
    assert vault.manifests("job-1") == ()
    with pytest.raises(BadManifest):
        vault.collect_garbage()
    assert vault.read_block(manifest.files[0].blocks[0]) == b"abc"


@pytest.mark.parametrize(
    "path", ["../outside", "/absolute", "a/../../b", "", ".", "a//b", "a/", "./a", "a\0b", "a/.."]
)
def test_a_path_that_leads_outside_is_not_sealed(judge: Vault, path: str) -> None:
    judge.begin("job-1", 1)
    with pytest.raises(BadManifest):
        judge.seal(a_manifest({path: b""}))


@pytest.mark.parametrize(
    "files",
    [
        (FileEntry(path="a", size_bytes=0, mode=0o100644, blocks=()),) * 2,
        (FileEntry(path="a", size_bytes=5, mode=0o100644, blocks=()),),
        (FileEntry(path="a", size_bytes=0, mode=0o104755, blocks=()),),
        (FileEntry(path="a", size_bytes=0, mode=0o020644, blocks=()),),
        (FileEntry(path="a", size_bytes=1, mode=0o100644, blocks=("../../etc",)),),
        (
            FileEntry(path="a", size_bytes=0, mode=0o100644, blocks=()),
            FileEntry(path="a/b", size_bytes=0, mode=0o100644, blocks=()),
        ),
    ],
    ids=["twice", "too few blocks", "set-user-id", "device", "block name", "file as directory"],
)
def test_a_manifest_that_does_not_add_up_is_not_sealed(judge: Vault, files: tuple[FileEntry, ...]) -> None:
    judge.begin("job-1", 1)
    total = sum(entry.size_bytes for entry in files)
    with pytest.raises(BadManifest):
        judge.seal(a_manifest({}, files=files, total_bytes=total))


@pytest.mark.parametrize("job_id", ["../other", "", "a/b", ".", "..", "x" * 200])
def test_a_job_id_that_leads_elsewhere_is_refused(judge: Vault, job_id: str) -> None:
    with pytest.raises(BadManifest):
        judge.begin(job_id, 1)


def test_forget_keeps_the_newest_and_never_fewer_than_two(vault: Vault) -> None:
    for step in range(5):
        sealed(vault, {}, checkpoint_id=f"c{step}", step=step)
    with pytest.raises(ValueError):
        vault.forget("job-1", keep=1)
    assert sorted(vault.forget("job-1", keep=2)) == ["c0", "c1", "c2"]
    assert [manifest.checkpoint_id for manifest in vault.manifests("job-1")] == ["c3", "c4"]
    assert vault.forget("job-1", keep=2) == ()


def test_of_saves_that_tell_no_step_the_one_made_last_is_the_newest(vault: Vault) -> None:
    for number in (8, 9, 10, 11):
        sealed(vault, {}, checkpoint_id=f"job-1-e1-c{number}", step=0)
    newest = vault.latest("job-1")
    assert newest is not None
    assert newest.checkpoint_id == "job-1-e1-c11"
    assert sorted(vault.forget("job-1", keep=2)) == ["job-1-e1-c8", "job-1-e1-c9"]
    assert [one.checkpoint_id for one in vault.manifests("job-1")] == ["job-1-e1-c10", "job-1-e1-c11"]


def test_what_a_machine_saved_when_nobody_could_ask_is_newer_than_what_was_ordered(vault: Vault) -> None:
    for name in ("e1-c9", "e1-c10", "e1-a1", "e1-a2"):
        sealed(vault, {}, checkpoint_id=f"job-1-{name}", step=0)
    assert sorted(vault.forget("job-1", keep=2)) == ["job-1-e1-c10", "job-1-e1-c9"]
    newest = vault.latest("job-1")
    assert newest is not None
    assert newest.checkpoint_id == "job-1-e1-a2"


def test_a_held_checkpoint_is_not_forgotten(place: Place) -> None:
    vault = place.open()
    for step in range(4):
        sealed(vault, {"weights": b"%d" % step}, checkpoint_id=f"c{step}", step=step)
    with place.open().hold("job-1", "c0"):
        assert vault.forget("job-1", keep=2) == ("c1",)
        vault.collect_garbage()
        assert vault.read_block(name_of(b"0")) == b"0"
    assert vault.forget("job-1", keep=2) == ("c0",)


def test_garbage_is_what_only_forgotten_checkpoints_needed(place: Place) -> None:
    vault = place.open()
    for step in range(3):
        sealed(vault, {"own": b"own of %d" % step, "shared": b"shared"}, checkpoint_id=f"c{step}", step=step)
    assert vault.collect_garbage().blocks == 0
    vault.forget("job-1", keep=2)
    assert vault.collect_garbage().blocks == 1
    with pytest.raises(MissingBlock):
        place.open().read_block(name_of(b"own of 0"))
    for data in (b"own of 1", b"own of 2", b"shared"):
        assert place.open().read_block(name_of(data)) == data


def test_blocks_of_an_upload_under_way_are_no_garbage(place: Place) -> None:
    vault = place.open()
    vault.begin("job-1", 1)
    vault.put(name_of(b"abc"), b"abc")
    assert place.open().collect_garbage().blocks == 0
    vault.seal(a_manifest({"weights": b"abc"}))
    assert vault.read_block(name_of(b"abc")) == b"abc"


def test_an_old_block_that_an_upload_was_told_not_to_send_is_no_garbage(place: Place) -> None:
    vault = place.open()
    vault.put(name_of(b"abc"), b"abc")  # of an upload that died
    vault.begin("job-1", 1)
    assert vault.has([name_of(b"abc")]) == {name_of(b"abc")}
    place.open().collect_garbage()
    vault.seal(a_manifest({"weights": b"abc"}))
    assert vault.read_block(name_of(b"abc")) == b"abc"


def test_of_racing_epochs_nothing_old_is_sealed_after_the_new_one_began(place: Place) -> None:
    """Whatever the interleaving: a seal of epoch 1 that succeeds came before the beginning of epoch 2."""
    place.open().put(name_of(b"abc"), b"abc")
    place.open().begin("job-1", 1)
    refused = []

    def seal_old(number: int) -> None:
        vault = place.open()
        try:
            vault.seal(a_manifest({"weights": b"abc"}, checkpoint_id=f"c{number}", step=number))
        except OldEpoch:
            refused.append(number)

    threads = [threading.Thread(target=seal_old, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    newer = place.open()
    newer.begin("job-1", 2)
    seen = {manifest.checkpoint_id for manifest in newer.manifests("job-1")}
    for thread in threads:
        thread.join()
    assert {manifest.checkpoint_id for manifest in newer.manifests("job-1")} == seen
    assert {f"c{number}" for number in refused} | seen == {f"c{number}" for number in range(8)}


def test_it_says_where_it_is(vault: Vault) -> None:
    assert vault.describe()
