"""Copies beside the runs of a job: what an earlier one sealed is copied, what it saves anew is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.vault import manifests as manifest_format
from gpunion.vault.manifest import BadManifest, OldEpoch, Vault
from gpunion.vault.transfer.replicate import DeskReplicas
from tests.builders.checkpoints import a_key, sealed, series, state
from tests.builders.two_places import BOTH, BUCKET, FOLDER
from tests.contract.vault.two_places import TwoPlaces, restored

pytestmark = pytest.mark.requires("s3")


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("encrypted", [False, True])
def test_what_an_earlier_run_sealed_is_copied_after_the_next_has_begun_and_its_new_saves_are_refused(
    places: TwoPlaces, first: str, encrypted: bool, tmp_path: Path
) -> None:
    second = BOTH[1 - BOTH.index(first)]
    vault: Vault = places.vault(first, second)
    vault = vault.keyed(a_key()) if encrypted else vault
    manifests = series(vault, 3)
    places.vault().begin("job-1", 2)
    done = places.copy()
    assert (done.copied, done.troubles) == (("c0", "c1", "c2"), {})
    assert [manifest_format.decode(data).checkpoint_id for data in places.desk(second).sealed("job-1")] == [
        "c0",
        "c1",
        "c2",
    ]
    late = manifest_format.encode(replace(manifests[2], checkpoint_id="late", step=9))
    for place in BOTH:
        with pytest.raises(OldEpoch):
            places.desk(place).begin("job-1", 1)
        with pytest.raises(OldEpoch):
            places.desk(place).seal("job-1", late)
    places.away.add(first)
    left: Vault = places.vault().keyed(a_key()) if encrypted else places.vault()
    assert restored(left, manifests[2], tmp_path / "out") == state(2)


@pytest.mark.parametrize("place", BOTH)
def test_a_copy_under_way_goes_on_when_the_next_run_begins(places: TwoPlaces, place: str) -> None:
    other = BOTH[1 - BOTH.index(place)]
    sealed(places.open(other), {"w": b"abc"})

    def begins(sent_bytes: int) -> None:
        places.desk(place).begin("job-1", 2)

    DeskReplicas(places.desk).complete("job-1", BOTH, pace=begins, cancelled=lambda: False)
    places.copy()  # a bucket asks for the blocks again: nobody kept them for the old run
    assert places.ids(place) == ["job-1-e1-c1"]


@pytest.mark.parametrize("place", BOTH)
def test_a_copy_of_a_newer_run_fences_the_older_in_a_place_that_was_away(
    places: TwoPlaces, place: str
) -> None:
    places.open(place).begin("job-1", 1)
    sealed(places.open(BOTH[1 - BOTH.index(place)]), {"w": b"abc"}, epoch=3)
    places.copy()
    with pytest.raises(OldEpoch):
        places.open(place).begin("job-1", 2)


def test_a_copy_of_a_run_that_has_not_begun_shuts_out_nobody(places: TwoPlaces) -> None:
    manifest = sealed(places.folder(), {"w": b"abc"})
    made_up = manifest_format.encode(replace(manifest, checkpoint_id="made-up", epoch=9))
    with pytest.raises(BadManifest, match="has not begun here"):
        places.desk(FOLDER).adopt("job-1", made_up)
    places.desk(FOLDER).begin("job-1", 2)


def test_an_older_epoch_in_any_place_is_refused_everywhere(places: TwoPlaces) -> None:
    places.open(BUCKET).begin("job-1", 7)
    with pytest.raises(OldEpoch):
        places.vault().begin("job-1", 6)
