"""Looking after a directory vault: what is found, what is mended, what is taken out of view."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpunion.vault.manifest import UnknownCheckpoint, VaultUnavailable
from gpunion.vault.stores.folder.caretaker import DirectoryCaretaker
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from tests.builders.checkpoints import name_of, sealed, series, state
from tests.contract.vault.conftest import Place, directory


def quietly(done: int, total: int) -> None:
    assert 0 < done <= total


def desk_of(root: Path) -> DirectoryDesk:
    return DirectoryDesk(DirectoryVault(root, create=False))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "vault"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = directory(tmp_path)
    vault = place.open()
    sealed(vault, {"w": b"first", "shared": b"shared"}, checkpoint_id="c1", step=1)
    sealed(vault, {"w": b"second", "shared": b"shared"}, checkpoint_id="c2", step=2)
    sealed(vault, {"w": b"other"}, job_id="job-2", checkpoint_id="d1", step=1)
    return place


def test_a_sound_vault_is_read_once_through_and_left_as_it_is(place: Place, root: Path) -> None:
    seen: list[tuple[int, int]] = []
    findings = DirectoryCaretaker(root).verify(None, lambda done, total: seen.append((done, total)))
    assert (findings.checkpoints, findings.blocks, findings.unreadable) == (3, 4, ())
    assert findings.plain_bytes == len(b"first" + b"second" + b"shared" + b"other")
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    repaired = DirectoryCaretaker(root).repair(None, None, quietly)
    assert (repaired.replaced, repaired.set_aside, repaired.in_use) == ((), (), ())


def test_only_the_job_that_was_asked_for_is_read(place: Place, root: Path) -> None:
    place.damage_block(name_of(b"first"))
    assert DirectoryCaretaker(root).verify("job-2", quietly).unreadable == ()
    with pytest.raises(UnknownCheckpoint):
        DirectoryCaretaker(root).verify("job-3", quietly)


def test_every_checkpoint_that_needs_a_damaged_block_is_named(place: Place, root: Path) -> None:
    place.damage_block(name_of(b"shared"))
    found = DirectoryCaretaker(root).verify(None, quietly).unreadable
    assert [(lost.job_id, lost.checkpoint_id, lost.blocks) for lost in found] == [
        ("job-1", "c1", (name_of(b"shared"),)),
        ("job-1", "c2", (name_of(b"shared"),)),
    ]


def test_a_repair_takes_what_is_lost_out_of_view_and_the_job_goes_on_from_the_one_before(
    place: Place, root: Path
) -> None:
    place.damage_block(name_of(b"second"))
    repaired = DirectoryCaretaker(root).repair(None, None, quietly)
    assert [lost.checkpoint_id for lost in repaired.set_aside] == ["c2"]
    vault = place.open()
    latest = vault.latest("job-1")
    assert latest is not None
    assert latest.checkpoint_id == "c1"
    assert [path.name for path in root.glob("jobs/job-1/damaged/*")] == ["0000000001-000000000000002-c2.json"]
    assert DirectoryCaretaker(root).verify(None, quietly).unreadable == ()


def test_a_damaged_manifest_is_set_aside_and_garbage_can_be_collected_again(place: Place, root: Path) -> None:
    path = next(root.glob("jobs/job-1/manifests/*c2.json"))
    path.write_bytes(b"{")
    assert DirectoryCaretaker(root).survey("job-1")[0].damaged == (path.name,)
    assert len(DirectoryCaretaker(root).repair(None, None, quietly).set_aside) == 1
    vault = place.open()
    assert vault.collect_garbage().blocks == 1
    assert vault.read_block(name_of(b"first")) == b"first"


def test_another_vault_gives_back_what_was_lost(place: Place, root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy")
    place.damage_block(name_of(b"shared"))
    next(root.glob(f"blocks/*/{name_of(b'other')}")).unlink()
    repaired = DirectoryCaretaker(root).repair(None, desk_of(tmp_path / "copy"), quietly)
    assert set(repaired.replaced) == {name_of(b"shared"), name_of(b"other")}
    assert repaired.set_aside == ()
    assert len(repaired.before.unreadable) == 3
    assert DirectoryCaretaker(root).verify(None, quietly).unreadable == ()


def test_a_damaged_block_of_an_older_checkpoint_is_taken_from_the_other_vault(tmp_path: Path) -> None:
    place = directory(tmp_path)
    root = tmp_path / "vault"
    series(place.open(), 3)
    shutil.copytree(root, tmp_path / "copy")
    place.open().forget("job-1", keep=2)
    place.damage_block(name_of(state(1)))
    repaired = DirectoryCaretaker(root).repair(None, desk_of(tmp_path / "copy"), quietly)
    assert repaired.replaced == (name_of(state(1)),)
    assert repaired.set_aside == ()


def test_a_checkpoint_that_somebody_reads_is_left_alone(place: Place, root: Path) -> None:
    place.damage_block(name_of(b"second"))
    with place.open().hold("job-1", "c2"):
        repaired = DirectoryCaretaker(root).repair(None, None, quietly)
    assert [lost.checkpoint_id for lost in repaired.in_use] == ["c2"]
    assert place.open().get("job-1", "c2").step == 2


def test_it_lists_what_is_there(place: Place, root: Path) -> None:
    shelves = DirectoryCaretaker(root).survey(None)
    assert [(shelf.job_id, shelf.epoch, len(shelf.checkpoints)) for shelf in shelves] == [
        ("job-1", 1, 2),
        ("job-2", 1, 1),
    ]


def test_where_there_is_no_vault_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(VaultUnavailable):
        DirectoryCaretaker(tmp_path / "nowhere")
    with pytest.raises(VaultUnavailable):
        DirectoryCaretaker(DirectoryVault(tmp_path / "vault").describe())
    assert not (tmp_path / "nowhere").exists()
