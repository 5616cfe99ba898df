"""What is sealed in one place is copied to the other, and forgotten in both."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.vault.manifest import OldEpoch, VaultFull
from gpunion.vault.replicas import Completed
from gpunion.vault.stores.bucket.store import BucketDesk
from tests.builders.checkpoints import a_key, name_of, sealed, series, state
from tests.builders.two_places import BOTH, BUCKET, FOLDER
from tests.contract.vault.two_places import TwoPlaces, quietly, restored

pytestmark = pytest.mark.requires("s3")


@pytest.mark.parametrize("first", BOTH)
def test_what_is_sealed_in_the_first_is_copied_to_the_second_and_nothing_twice(
    places: TwoPlaces, first: str, tmp_path: Path
) -> None:
    second = BOTH[1 - BOTH.index(first)]
    vault = places.vault(first, second)
    manifests = series(vault, 3)
    assert places.ids(second) == []
    done = places.copy()
    assert set(done.copied) == {manifest.checkpoint_id for manifest in manifests}
    assert done.troubles == {}
    assert places.copy() == Completed()
    places.away.add(first)
    for number, manifest in enumerate(manifests):
        assert restored(places.vault(first, second), manifest, tmp_path / "out") == state(number)


def test_copies_of_a_job_with_a_key_need_no_key(places: TwoPlaces, tmp_path: Path) -> None:
    manifests = series(places.vault().keyed(a_key()), 3)
    places.vault().forget("job-1", keep=2)  # what the others are differences from is in no checkpoint now
    assert len(places.copy().copied) == 2
    places.away.add(FOLDER)
    assert restored(places.vault().keyed(a_key()), manifests[2], tmp_path / "out") == state(2)


def test_what_is_forgotten_is_forgotten_in_every_place(places: TwoPlaces) -> None:
    for step in range(5):
        sealed(places.vault(), {"w": b"%d" % step}, checkpoint_id=f"c{step}", step=step)
    places.copy()
    places.vault().forget("job-1", keep=2)
    assert places.ids(FOLDER) == places.ids(BUCKET) == ["c3", "c4"]
    assert places.copy() == Completed()


def test_what_the_first_has_forgotten_does_not_come_back_from_the_second(places: TwoPlaces) -> None:
    """As an agent does it: forget after every save, and copy then."""
    copied: list[str] = []
    for step in range(5):
        sealed(places.vault(), {"w": b"%d" % step}, checkpoint_id=f"c{step}", step=step)
        places.vault().forget("job-1", keep=2)
        copied += places.copy().copied
        assert places.ids(FOLDER) == [f"c{number}" for number in range(max(0, step - 1), step + 1)]
    assert copied == [f"c{step}" for step in range(5)]


def test_a_place_gets_all_that_it_missed_and_what_it_lacks_of_those_that_are_kept(places: TwoPlaces) -> None:
    for step in range(5):
        sealed(places.vault(), {"w": b"%d" % step}, checkpoint_id=f"c{step}", step=step)
    bucket = places.open(BUCKET)
    sealed(bucket, {"w": b"1"}, checkpoint_id="c1", step=1)
    assert places.copy().copied == ("c2", "c3", "c4")  # of what is older than c1 it wants nothing
    objects = places.objects()
    for listed in objects.list("jobs/job-1/manifests/"):
        if "-c3/" in listed.key:
            objects.put(listed.key, b"{")
    places.caretaker(BUCKET).repair(None, None, quietly)
    assert places.ids(BUCKET) == ["c1", "c2", "c4"]
    assert places.copy().copied == ("c3",)


def test_a_place_that_is_away_is_told_and_gets_the_rest_later(places: TwoPlaces) -> None:
    places.away.add(BUCKET)
    sealed(places.vault(), {"w": b"abc"})
    assert places.copy().troubles == {BUCKET: "bucket is away"}
    places.away.clear()
    assert places.copy().copied == ("job-1-e1-c1",)


def test_what_cannot_be_read_keeps_nothing_newer_from_being_copied(places: TwoPlaces) -> None:
    for number in range(3):
        sealed(places.vault(), {"w": b"%d" % number}, checkpoint_id=f"c{number}", step=number)
    places.tear_in_folder(b"1")
    done = places.copy()
    assert done.copied == ("c0", "c2")
    assert done.troubles.keys() == {BUCKET}
    assert "c1 cannot be read in folder" in done.troubles[BUCKET]
    assert places.ids(BUCKET) == ["c0", "c2"]


def test_a_place_that_is_full_is_not_asked_again_in_the_same_round(
    places: TwoPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        sealed(places.vault(), {"w": b"%d" % number}, checkpoint_id=f"c{number}", step=number)
    asked = []

    def full(desk: BucketDesk, name: str, stored: bytes, job_id: str | None = None) -> None:
        asked.append(name)
        raise VaultFull("no room in the bucket")

    monkeypatch.setattr(BucketDesk, "put", full)
    assert places.copy().troubles == {BUCKET: "no room in the bucket"}
    assert asked == [name_of(b"0")]


def test_with_the_first_away_the_second_takes_the_save_and_the_first_gets_it_back(places: TwoPlaces) -> None:
    places.away.add(FOLDER)
    sealed(places.vault(), {"w": b"abc"}, epoch=2)
    places.away.clear()
    assert (places.ids(FOLDER), places.ids(BUCKET)) == ([], ["job-1-e1-c1"])
    places.copy()
    assert places.ids(FOLDER) == ["job-1-e1-c1"]
    with pytest.raises(OldEpoch):
        places.vault().begin("job-1", 1)
