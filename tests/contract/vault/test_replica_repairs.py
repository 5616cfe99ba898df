"""Checkpoints are read from whichever place has them sound, and mended from each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    UnknownCheckpoint,
    Vault,
    VaultDenied,
    VaultFault,
    VaultUnavailable,
)
from gpunion.vault.stores.bucket.caretaker import BucketCaretaker
from gpunion.vault.stores.bucket.store import BucketDesk
from gpunion.vault.stores.folder.caretaker import DirectoryCaretaker
from tests.builders.checkpoints import a_key, name_of, sealed, series, state
from tests.builders.two_places import BOTH, BUCKET, FOLDER
from tests.contract.vault.two_places import TwoPlaces, quietly, restored

pytestmark = pytest.mark.requires("s3")


def test_a_torn_block_comes_from_the_other_place(places: TwoPlaces, tmp_path: Path) -> None:
    manifest = sealed(places.vault(), {"w": b"abc" * 100})
    places.copy()
    places.tear_in_folder(b"abc" * 100)
    assert restored(places.vault(), manifest, tmp_path / "out") == b"abc" * 100
    places.tear_in_bucket(b"abc" * 100)
    with pytest.raises(CorruptBlock):
        restored(places.vault(), manifest, tmp_path / "out")


def test_what_may_lie_in_a_place_that_is_away_is_not_called_lost(places: TwoPlaces, tmp_path: Path) -> None:
    old = sealed(places.vault(), {"w": b"old" * 100}, checkpoint_id="c1", step=1)
    places.copy()
    sealed(places.vault(), {"w": b"new"}, checkpoint_id="c2", step=2)
    places.away.add(FOLDER)
    with pytest.raises(VaultUnavailable):
        places.vault().get("job-1", "c2")
    assert [found.checkpoint_id for found in places.vault().manifests("job-1")] == ["c1"]
    places.tear_in_bucket(b"old" * 100)
    with pytest.raises(VaultUnavailable):
        restored(places.vault(), old, tmp_path / "out")
    places.away = {FOLDER, BUCKET}
    with pytest.raises(VaultUnavailable):
        places.vault().manifests("job-1")
    places.away.clear()
    with pytest.raises(UnknownCheckpoint):
        places.vault().get("job-1", "c3")


def test_what_a_restore_reads_is_forgotten_in_no_place(places: TwoPlaces) -> None:
    for step in range(4):
        sealed(places.vault(), {"w": b"%d" % step}, checkpoint_id=f"c{step}", step=step)
    places.copy()
    with places.vault().hold("job-1", "c0"):
        assert places.vault().forget("job-1", keep=2) == ("c1",)
        assert places.ids(FOLDER) == places.ids(BUCKET) == ["c0", "c2", "c3"]


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_torn_block_of_the_bucket_is_mended_from_the_replica_for_good(
    places: TwoPlaces, tmp_path: Path, encrypted: bool
) -> None:
    vault: Vault = places.vault(BUCKET, FOLDER)
    if encrypted:
        vault = vault.keyed(a_key())
    manifests = series(vault, 3)
    places.copy()
    objects = places.objects()
    block = max(objects.list("jobs/job-1/blocks/" if encrypted else "blocks/"), key=lambda one: one.key)
    objects.put(block.key, b"torn")
    found = BucketCaretaker(objects).verify(None, quietly)
    assert len(found.unreadable) == 1
    assert (found.checkpoints, found.encrypted) == (3, 3 if encrypted else 0)
    repaired = BucketCaretaker(objects).repair(None, places.desk(FOLDER), quietly)
    assert repaired.replaced
    assert (repaired.set_aside, repaired.in_use) == ((), ())
    BucketDesk(objects, grace_s=0.0).collect_garbage()
    assert BucketCaretaker(objects).verify("job-1", quietly).unreadable == ()
    places.away.add(FOLDER)
    for number, manifest in enumerate(manifests):
        again: Vault = places.vault()
        again = again.keyed(a_key()) if encrypted else again
        assert restored(again, manifest, tmp_path / "out") == state(number)


def test_a_torn_block_of_the_folder_is_mended_from_the_bucket(places: TwoPlaces) -> None:
    series(places.vault(), 3)
    places.copy()
    places.tear_in_folder(state(0))
    caretaker = DirectoryCaretaker(places.root / "folder")
    repaired = caretaker.repair(None, places.desk(BUCKET), quietly)
    assert repaired.replaced == (name_of(state(0)),)
    assert caretaker.verify(None, quietly).unreadable == ()


@pytest.mark.parametrize("place", BOTH)
@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("fault", [VaultUnavailable, VaultDenied])
def test_a_repair_whose_source_goes_away_takes_nothing_out_of_view(
    places: TwoPlaces, place: str, encrypted: bool, fault: type[VaultFault], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = BOTH[1 - BOTH.index(place)]
    vault: Vault = places.vault()
    sealed(vault.keyed(a_key()) if encrypted else vault, {"w": b"abc" * 100})
    places.copy()
    places.tear(place)
    source = places.desk(other)

    def gone(name: str, job_id: str | None = None) -> bytes:
        raise fault(f"{other} does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(source, "fetch", gone)
        with pytest.raises(fault):
            places.caretaker(place).repair(None, source, quietly)
    assert len(places.desk(place).sealed("job-1")) == 1
    repaired = places.caretaker(place).repair(None, source, quietly)
    assert (len(repaired.replaced), repaired.set_aside) == (1, ())


def test_what_no_place_has_is_set_aside_and_a_reader_is_waited_for(places: TwoPlaces) -> None:
    vault = places.open(BUCKET)
    sealed(vault, {"w": b"first"}, checkpoint_id="c1", step=1)
    sealed(vault, {"w": b"second"}, checkpoint_id="c2", step=2)
    places.tear_in_bucket(b"second")
    caretaker = BucketCaretaker(places.objects())
    with vault.hold("job-1", "c2"):
        assert [lost.checkpoint_id for lost in caretaker.repair(None, None, quietly).in_use] == ["c2"]
    repaired = caretaker.repair(None, None, quietly)
    assert [lost.checkpoint_id for lost in repaired.set_aside] == ["c2"]
    assert places.ids(BUCKET) == ["c1"]
    assert [len(shelf.checkpoints) for shelf in caretaker.survey(None)] == [1]
    with pytest.raises(UnknownCheckpoint):
        caretaker.verify("job-9", quietly)


def test_a_damaged_record_of_a_bucket_is_set_aside(places: TwoPlaces) -> None:
    vault = places.open(BUCKET)
    sealed(vault, {"w": b"first"}, checkpoint_id="c1", step=1)
    objects = places.objects()
    (record,) = [listed.key for listed in objects.list("jobs/") if "/manifests/" in listed.key]
    objects.put(record, b"{")
    with pytest.raises(BadManifest):
        vault.latest("job-1")
    caretaker = BucketCaretaker(objects)
    assert len(caretaker.survey("job-1")[0].damaged) == 1
    assert len(caretaker.repair(None, None, quietly).set_aside) == 1
    assert vault.latest("job-1") is None
    BucketDesk(objects, grace_s=0.0).collect_garbage()
