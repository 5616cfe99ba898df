"""A job's checkpoints in two places: copied, read from whichever has them sound, mended from each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.files import manifests as manifest_format
from gpunion.adapters.files.caretaker import DirectoryCaretaker
from gpunion.adapters.files.desk import DirectoryDesk
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.mirror import MirrorVault
from gpunion.adapters.files.replicas import DeskReplicas
from gpunion.adapters.files.replicated import NamedVault, ReplicatedVault
from gpunion.adapters.files.restore import restore_directory
from gpunion.adapters.s3.caretaker import BucketCaretaker
from gpunion.adapters.s3.desk import BucketDesk
from gpunion.adapters.s3.objects import Objects
from gpunion.ports.replicas import Completed
from gpunion.ports.vault import (
    BadManifest,
    CorruptBlock,
    Manifest,
    OldEpoch,
    UnknownCheckpoint,
    Vault,
    VaultDenied,
    VaultFault,
    VaultFull,
    VaultUnavailable,
)
from gpunion.ports.vault_care import Caretaker
from gpunion.ports.vault_desk import VaultDesk
from tests.contract.vault.conftest import a_key, name_of, sealed
from tests.contract.vault.test_differences import state

pytestmark = pytest.mark.requires("s3")
FOLDER, BUCKET = "folder", "bucket"
BOTH = (FOLDER, BUCKET)


@dataclass
class TwoPlaces:
    root: Path
    store: Any
    away: set[str] = field(default_factory=set)

    def folder(self) -> DirectoryVault:
        return DirectoryVault(self.root / "folder", grace_s=0.0)

    def objects(self) -> Objects:
        return Objects(self.store, "memory")

    def desk(self, place: str) -> VaultDesk:
        if place in self.away:
            raise VaultUnavailable(f"{place} is away")
        return DirectoryDesk(self.folder()) if place == FOLDER else BucketDesk(self.objects(), grace_s=0.0)

    def open(self, place: str) -> Vault:
        desk = self.desk(place)
        if isinstance(desk, DirectoryDesk):
            return self.folder()
        mirror = self.root / f"mirror-{len(list(self.root.iterdir()))}"
        return MirrorVault(desk, mirror, limit_bytes=10**9)

    def vault(self, *order: str) -> ReplicatedVault:
        return ReplicatedVault([NamedVault(name, self._opener(name)) for name in order or BOTH])

    def _opener(self, name: str) -> Callable[[], Vault]:
        opened: list[Vault] = []

        def open_once() -> Vault:
            if name in self.away:
                raise VaultUnavailable(f"{name} is away")
            if not opened:
                opened.append(self.open(name))
            return opened[0]

        return open_once

    def copy(self) -> Completed:
        return DeskReplicas(self.desk).complete(
            "job-1", BOTH, pace=lambda sent_bytes: None, cancelled=lambda: False
        )

    def tear_in_folder(self, data: bytes) -> None:
        path = next((self.root / "folder").rglob(f"blocks/*/{name_of(data)}"))
        path.write_bytes(path.read_bytes()[:-1] + b"?")

    def tear_in_bucket(self, data: bytes) -> None:
        objects = self.objects()
        keys = [listed.key for listed in objects.list("") if f"/{name_of(data)}/" in listed.key]
        assert keys
        for key in keys:
            objects.put(key, b"torn")

    def tear(self, place: str) -> None:
        """Every block of it."""
        if place == FOLDER:
            for path in self.folder().stored():
                path.write_bytes(b"torn")
            return
        objects = self.objects()
        for listed in objects.list(""):
            if "blocks/" in listed.key:
                objects.put(listed.key, b"torn")

    def caretaker(self, place: str) -> Caretaker:
        if place == FOLDER:
            return DirectoryCaretaker(self.root / "folder")
        return BucketCaretaker(self.objects())

    def ids(self, place: str) -> list[str]:
        return [manifest.checkpoint_id for manifest in self.open(place).manifests("job-1")]


@pytest.fixture
def places(tmp_path: Path) -> TwoPlaces:
    from obstore.store import MemoryStore

    return TwoPlaces(tmp_path, MemoryStore())


def series(vault: Vault, count: int) -> list[Manifest]:
    """Each stored as the difference from the one before."""
    found = []
    for number in range(count):
        vault.begin("job-1", 1)
        like = name_of(state(number - 1)) if number else None
        vault.put(name_of(state(number)), state(number), like)
        found.append(sealed(vault, {"w": state(number)}, checkpoint_id=f"c{number}", step=number))
    return found


def quietly(done: int, total: int) -> None:
    assert 0 < done <= total


def restored(vault: Vault, manifest: Manifest, into: Path) -> bytes:
    restore_directory(vault, manifest, into)
    return (into / manifest.files[0].path).read_bytes()


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
    base = max(objects.list("jobs/job-1/blocks/" if encrypted else "blocks/"), key=lambda one: one.size_bytes)
    objects.put(base.key, b"torn")  # the whole block that the others are differences from
    found = BucketCaretaker(objects).verify(None, quietly)
    assert len(found.unreadable) == 3
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
