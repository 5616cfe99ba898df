"""What a collector has to respect in a bucket, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpunion.vault import codec, manifests
from gpunion.vault.stores.bucket.layout import Copy, session_key
from gpunion.vault.stores.bucket.ledger import BEGUN_LEASE_S
from gpunion.vault.stores.bucket.objects import Found, Listed, Objects
from gpunion.vault.stores.bucket.session import LEASE_S, UploadSession, UploadSessionEnded, living
from gpunion.vault.stores.bucket.store import BucketDesk
from tests.builders.checkpoints import a_manifest, name_of

pytestmark = pytest.mark.requires("s3")


@pytest.fixture
def store() -> Any:
    from obstore.store import MemoryStore

    return MemoryStore()


def test_the_time_that_a_machine_sleeps_counts_for_leases(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only CLOCK_BOOTTIME goes on in a suspend."""
    objects, clock = Objects(store, "memory"), time.clock_gettime
    before_s = objects.now_s()
    asleep_s = 1e6
    monkeypatch.setattr(
        time, "clock_gettime", lambda which: clock(which) + asleep_s * (which == time.CLOCK_BOOTTIME)
    )
    assert objects.now_s() - before_s >= asleep_s


class Ageing(Objects):
    """Shows what is `old` as of more than a lease ago, and etags made of the bytes as Amazon's are."""

    def __init__(self, store: Any) -> None:
        super().__init__(store, "memory")
        self.old: set[bytes] = set()
        self.meanwhile: Callable[[], None] = lambda: None

    def get(self, key: str) -> Found | None:
        found = super().get(key)
        if found is None:
            return None
        age_s = LEASE_S if found.data in self.old else 0.0
        return replace(found, etag=found.data.hex(), modified_s=found.modified_s - age_s)

    def list(self, prefix: str) -> list[Listed]:
        found = [
            replace(listed, modified_s=about.modified_s)
            for listed in super().list(prefix)
            if (about := self.get(listed.key)) is not None
        ]
        self.meanwhile()
        return found

    def replace(self, key: str, data: bytes, etag: str) -> bool:
        if data == b"ended":
            self.meanwhile()
        found = super().get(key)
        return found is not None and found.data.hex() == etag and super().replace(key, data, found.etag)


@pytest.mark.parametrize("proves_at_sight", [1, 2], ids=["after the list", "before it is ended"])
def test_a_session_that_proves_itself_while_a_collector_looks_is_not_ended(
    store: Any, proves_at_sight: int
) -> None:
    objects, session = Ageing(store), UploadSession()
    session.begin(objects)
    found = objects.get(session_key(session.id))
    assert found is not None
    objects.old = {found.data}
    sights = 0

    def prove() -> None:
        nonlocal sights
        sights += 1
        if sights == proves_at_sight:
            session.prove(objects)

    objects.meanwhile = prove
    assert living(objects, objects.now_s() + 1) == {session.id}
    assert sights >= proves_at_sight
    session.prove(objects)


def test_a_session_that_says_nothing_for_a_lease_is_ended(store: Any) -> None:
    objects, session = Ageing(store), UploadSession()
    session.begin(objects)
    found = objects.get(session_key(session.id))
    assert found is not None
    objects.old = {found.data}
    assert living(objects, objects.now_s() + 1) == set()
    with pytest.raises(UploadSessionEnded):
        session.prove(objects)


class Bucket(Objects):
    """Its clock can be put forward, and something may happen before a manifest is written."""

    def __init__(self, store: Any) -> None:
        super().__init__(store, "memory")
        self.later_s = 0.0
        self.before_manifest: Callable[[], None] | None = None

    def now_s(self) -> float:
        return super().now_s() + self.later_s

    def put(self, key: str, data: bytes) -> None:
        if "/manifests/" in key and self.before_manifest is not None:
            call, self.before_manifest = self.before_manifest, None
            call()
        super().put(key, data)

    def names(self) -> set[str]:
        return {Copy(listed.key).name for listed in self.list("blocks/")}


@pytest.fixture
def bucket(store: Any) -> Bucket:
    return Bucket(store)


@pytest.fixture
def desk(bucket: Bucket) -> BucketDesk:
    return BucketDesk(bucket, grace_s=0.0)


def put(desk: BucketDesk, data: bytes) -> str:
    name = name_of(data)
    if not desk.has([name]):
        desk.put(name, codec.encode(data))
    return name


def save(desk: BucketDesk, data: bytes, step: int, job_id: str = "job-1") -> None:
    desk.begin(job_id, 1)
    put(desk, data)
    seal(desk, data, step, job_id)


def seal(desk: BucketDesk, data: bytes, step: int, job_id: str) -> None:
    manifest = a_manifest({"weights": data}, checkpoint_id=f"{job_id}-c{step}", job_id=job_id, step=step)
    desk.seal(job_id, manifests.encode(manifest))


def test_a_run_that_began_and_never_sealed_keeps_nothing_of_others_from_being_collected(
    bucket: Bucket, desk: BucketDesk
) -> None:
    desk.begin("job-dead", 1)
    for step in range(10):
        save(desk, b"%d" % step, step)
        desk.forget("job-1", keep=3)
    assert bucket.list("sessions/") == []
    desk.begin("job-2", 1)
    seal(desk, b"", 1, "job-2")  # of no block at all
    assert bucket.list("sessions/") == []
    assert desk.collect_garbage().blocks == 7
    assert bucket.names() == {name_of(b"7"), name_of(b"8"), name_of(b"9")}


def test_what_an_upload_has_put_stays_while_others_seal_and_until_it_may_have_died(
    bucket: Bucket, desk: BucketDesk
) -> None:
    for job_id in ("job-slow", "job-dead"):
        desk.begin(job_id, 1)
        put(desk, job_id.encode())
    for step in range(5):
        save(desk, b"%d" % step, step)
        desk.forget("job-1", keep=2)
        desk.collect_garbage()
    # The first was put in the session of the two; the others in later ones, which are over.
    left = {b"0", b"3", b"4", b"job-slow", b"job-dead"}
    assert bucket.names() == set(map(name_of, left))
    seal(desk, b"job-slow", 1, "job-slow")
    bucket.later_s = BEGUN_LEASE_S
    save(desk, b"5", 5)
    assert bucket.list("sessions/") == []
    desk.collect_garbage()
    assert bucket.names() == set(map(name_of, {b"3", b"4", b"5", b"job-slow"}))


def test_what_a_seal_under_way_rests_on_stays_when_another_job_seals_and_forgets_it(
    bucket: Bucket, desk: BucketDesk
) -> None:
    desk.begin("job-2", 1)
    shared = put(desk, b"shared")
    desk.begin("job-1", 1)

    def meanwhile() -> None:
        seal(desk, b"shared", 1, "job-1")
        for step in (2, 3):
            save(desk, b"%d" % step, step)
        assert desk.forget("job-1", keep=2) == ("job-1-c1",)
        desk.collect_garbage()

    bucket.before_manifest = meanwhile
    seal(desk, b"shared", 1, "job-2")
    assert bucket.before_manifest is None
    desk.collect_garbage()
    assert bucket.list("sessions/") == []
    assert shared in bucket.names()


@pytest.mark.parametrize("wanted", [False, True])
def test_what_a_failed_upload_has_left_goes_when_those_have_sealed_that_had_begun(
    bucket: Bucket, desk: BucketDesk, wanted: bool
) -> None:
    """Although another upload is under way, unless that one has been told that it is there."""
    desk.begin("job-1", 1)
    failed = put(desk, b"failed")
    desk.begin("job-2", 1)
    save(desk, b"1", 1, "job-1")
    desk.begin("job-3", 1)
    put(desk, b"late")
    if wanted:
        assert desk.has([failed])
    save(desk, b"2", 2, "job-2")
    desk.collect_garbage()
    assert bucket.names() - {failed} == set(map(name_of, {b"1", b"2", b"late"}))
    assert (failed in bucket.names()) == wanted
    seal(desk, b"late", 3, "job-3")
    desk.collect_garbage()
    assert bucket.names() == set(map(name_of, {b"1", b"2", b"late"}))
