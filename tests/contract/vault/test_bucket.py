"""What is particular to a vault in a bucket: its server's answers, and collectors without a lock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpunion.vault import codec
from gpunion.vault.manifest import (
    BLOCK_SIZE_BYTES,
    MissingBlock,
    VaultDenied,
    VaultFault,
    VaultFull,
    VaultUnavailable,
)
from gpunion.vault.stores.bucket.bucket import Bucket, open_bucket
from gpunion.vault.stores.bucket.layout import copy_by
from gpunion.vault.stores.bucket.objects import Found, Listed, Objects
from gpunion.vault.stores.bucket.session import LEASE_S
from gpunion.vault.stores.bucket.store import BucketDesk
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.ship import ship_directory
from gpunion.vault.vault import MirrorVault
from tests.builders.checkpoints import a_label, a_manifest, name_of, sealed
from tests.contract.vault.conftest import BUCKET
from tests.s3_server import S3Server

pytestmark = pytest.mark.requires("s3")
over_http = pytest.mark.xdist_group("s3-server")


class Watched(Objects):
    """Calls back before an operation, once."""

    def __init__(self, store: Any) -> None:
        super().__init__(store, "memory")
        self.before_delete: Callable[[], None] | None = None
        self.before_doom: Callable[[], None] | None = None
        self._old: set[str] = set()

    def a_day_passes(self) -> None:
        """For all that is there by now."""
        self._old = {listed.key for listed in self.list("")}

    def put(self, key: str, data: bytes) -> None:
        if key.startswith("doomed/") and self.before_doom is not None:
            call, self.before_doom = self.before_doom, None
            call()
        super().put(key, data)

    def delete(self, keys: Sequence[str]) -> None:
        if any(key.startswith("blocks/") for key in keys) and self.before_delete is not None:
            call, self.before_delete = self.before_delete, None
            call()
        super().delete(keys)

    def get(self, key: str) -> Found | None:
        found = super().get(key)
        if found is None or key not in self._old:
            return found
        return replace(found, modified_s=found.modified_s - LEASE_S)

    def list(self, prefix: str) -> list[Listed]:
        return [
            replace(listed, modified_s=listed.modified_s - LEASE_S) if listed.key in self._old else listed
            for listed in super().list(prefix)
        ]


@pytest.fixture
def store() -> Any:
    from obstore.store import MemoryStore

    return MemoryStore()


@pytest.fixture
def watched(store: Any) -> Watched:
    return Watched(store)


@pytest.fixture
def vault(store: Any, tmp_path: Path) -> MirrorVault:
    desk = BucketDesk(Objects(store, "memory"), grace_s=0.0)
    return MirrorVault(desk, tmp_path / "mirror", limit_bytes=10**9)


def orphan(store: Any, data: bytes) -> None:
    """A block of an upload that died long ago."""
    copy = copy_by("0" * 32, None, name_of(data))
    Objects(store, "memory").put(copy.key, codec.encode(data))


def stored(store: Any, data: bytes) -> bytes:
    """As a machine finds it that knows nothing of what the others do."""
    return codec.decode(BucketDesk(Objects(store, "memory")).fetch(name_of(data)))


def test_a_store_that_ignores_conditions_is_refused(store: Any) -> None:
    class Careless:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def put(self, path: str, file: bytes, *, mode: Any = None) -> Any:
            return store.put(path, file)

    with pytest.raises(VaultUnavailable, match="ignores If-None-Match"):
        BucketDesk(Objects(Careless(), "careless"))


def test_without_the_package_it_says_what_to_install() -> None:
    def absent() -> Any:
        raise ImportError("No module named 'obstore'")

    bucket = Bucket(bucket="vaults", access_key_id="key", secret_access_key="hush")
    with pytest.raises(VaultUnavailable, match=r"pip install 'gpunion\[s3\]'"):
        open_bucket(bucket, absent)
    assert "hush" not in repr(bucket)


@pytest.mark.parametrize(
    "settings",
    [
        {"endpoint": "http://127.0.0.1:99000"},  # obstore panics, which is no Exception
        {"access_key_id": "key\nhush"},  # so does what it is asked for
        {"prefix": "a//b"},  # a bare ValueError
    ],
)
def test_settings_that_obstore_stumbles_over_are_a_place_that_is_unavailable(
    settings: dict[str, Any],
) -> None:
    known: dict[str, Any] = {
        "endpoint": "http://127.0.0.1:1",
        "access_key_id": "key",
        "secret_access_key": "hush",
    }
    with pytest.raises(VaultUnavailable, match="Next: look at endpoint, bucket") as raised:
        open_bucket(Bucket(bucket="vaults", tries=1, **(known | settings))).get("clock")
    assert "hush" not in str(raised.value)


def test_what_does_not_come_from_obstore_passes_through() -> None:
    def interrupted() -> Any:
        raise KeyboardInterrupt

    def load() -> Any:
        return lambda *_, **__: interrupted()

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: interrupted()

    with pytest.raises(KeyboardInterrupt):
        open_bucket(Bucket(bucket="vaults", access_key_id="key", secret_access_key="hush"), load)
    with pytest.raises(KeyboardInterrupt):
        Objects(Interrupted(), "memory").get("clock")


@over_http
@pytest.mark.parametrize(
    ("trouble", "fault", "told"),
    [
        (("403 Forbidden", "AccessDenied"), VaultDenied, "credentials are refused"),
        (("403 Forbidden", "InvalidAccessKeyId"), VaultDenied, "credentials are refused"),
        (("403 Forbidden", "QuotaExceeded"), VaultFull, "raises the quota"),
        (("507 Insufficient Storage", "XMinioStorageFull"), VaultFull, "raises the quota"),
        (("503 Slow Down", "SlowDown"), VaultUnavailable, "can be reached"),
    ],
)
def test_full_denied_and_away_are_told_apart(
    s3: S3Server, trouble: tuple[str, str], fault: type[VaultFault], told: str
) -> None:
    desk = BucketDesk(open_bucket(s3.bucket(BUCKET, prefix=f"told-{trouble[1]}")))
    s3.trouble = lambda method, path: trouble
    try:
        for ask in (lambda: desk.begin("job-1", 1), lambda: desk.has([name_of(b"a")])):
            with pytest.raises(fault, match=told) as raised:
                ask()
            assert type(raised.value) is fault
            assert raised.value.temporary == (fault is not VaultDenied)
            assert "Next: " in str(raised.value)
            assert "secret" not in str(raised.value)
    finally:
        s3.trouble = lambda method, path: None


@over_http
def test_a_bucket_that_is_not_there_and_a_server_that_is_not_there_are_unavailable(s3: S3Server) -> None:
    with pytest.raises(VaultUnavailable, match="no such bucket"):
        BucketDesk(open_bucket(s3.bucket("nobody-made-this")))
    with pytest.raises(VaultUnavailable, match="can be reached"):
        BucketDesk(open_bucket(s3.bucket(BUCKET, endpoint="http://127.0.0.1:1")))


@over_http
def test_an_upload_that_was_cut_goes_on_where_it_was_from_another_machine(
    s3: S3Server, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "weights").write_bytes(random.Random(1).randbytes(5 * BLOCK_SIZE_BYTES))

    def opened(name: str) -> MirrorVault:
        desk = BucketDesk(open_bucket(s3.bucket(BUCKET, prefix="resumed")))
        return MirrorVault(desk, tmp_path / name, limit_bytes=10**9)

    def blocks_put() -> int:
        return sum(method == "PUT" and "/blocks/" in path for method, path in s3.requests)

    first = opened("first")
    before = blocks_put()
    s3.trouble = lambda method, path: (
        ("503 Away", "SlowDown") if method == "PUT" and blocks_put() > before + 3 else None
    )
    try:
        with pytest.raises(VaultUnavailable):
            ship_directory(first, source, a_label(), workers=1)
    finally:
        s3.trouble = lambda method, path: None
    assert first.latest("job-1") is None
    before = blocks_put()
    second = opened("second")
    manifest = ship_directory(second, source, a_label(), workers=1)
    assert blocks_put() - before == 2
    restore_directory(opened("third"), manifest, tmp_path / "restored")
    assert (tmp_path / "restored" / "weights").read_bytes() == (source / "weights").read_bytes()


def test_what_is_doomed_is_relied_on_by_nobody_and_stored_anew(
    store: Any, watched: Watched, vault: MirrorVault
) -> None:
    orphan(store, b"abc")

    def meanwhile() -> None:
        sealed(vault, {"weights": b"abc"})

    watched.before_delete = meanwhile
    assert BucketDesk(watched, grace_s=0.0).collect_garbage().blocks == 1
    assert stored(store, b"abc") == b"abc"
    assert BucketDesk(watched, grace_s=0.0).collect_garbage().blocks == 0


def test_what_was_claimed_before_it_was_doomed_is_spared(
    store: Any, watched: Watched, vault: MirrorVault
) -> None:
    orphan(store, b"abc")
    vault.begin("job-1", 1)
    found: list[set[str]] = []
    watched.before_doom = lambda: found.append(vault.has([name_of(b"abc")]))
    assert BucketDesk(watched, grace_s=0.0).collect_garbage().blocks == 0
    assert found == [{name_of(b"abc")}]
    vault.seal(a_manifest({"weights": b"abc"}))
    assert stored(store, b"abc") == b"abc"


def test_a_collector_that_died_is_finished_for_and_nothing_is_relied_on_in_between(
    store: Any, watched: Watched, vault: MirrorVault
) -> None:
    orphan(store, b"abc")

    class Cut(BaseException):
        pass

    def die() -> None:
        raise Cut

    watched.before_delete = die
    with pytest.raises(Cut):
        BucketDesk(watched, grace_s=0.0).collect_garbage()
    assert vault.has([name_of(b"abc")]) == set()
    sealed(vault, {"weights": b"abc"})
    watched.a_day_passes()
    BucketDesk(watched, grace_s=0.0).collect_garbage()
    assert watched.list("doomed/") == []
    assert len(watched.list("blocks/")) == 1
    assert stored(store, b"abc") == b"abc"


def test_an_upload_of_more_than_a_day_looks_for_its_blocks_again_before_it_seals(
    store: Any, watched: Watched, vault: MirrorVault
) -> None:
    manifest = a_manifest({"weights": b"abc"})
    vault.begin("job-1", 1)
    vault.put(name_of(b"abc"), b"abc")
    watched.a_day_passes()
    assert BucketDesk(watched, grace_s=0.0).collect_garbage().blocks == 1
    with pytest.raises(MissingBlock):
        vault.seal(manifest)
    assert vault.latest("job-1") is None
    vault.put(name_of(b"abc"), b"abc")
    vault.seal(manifest)
    assert vault.latest("job-1") == manifest


def test_what_an_upload_builds_on_is_kept_for_it_when_its_checkpoint_is_forgotten(
    store: Any, vault: MirrorVault, tmp_path: Path
) -> None:
    other = MirrorVault(BucketDesk(Objects(store, "memory"), grace_s=0.0), tmp_path / "o", limit_bytes=10**9)
    sealed(other, {"weights": b"abc"}, checkpoint_id="c1", step=1)
    vault.begin("job-1", 1)
    assert vault.has([name_of(b"abc")]) == {name_of(b"abc")}
    for step in (2, 3):
        sealed(other, {"weights": b"%d" % step}, checkpoint_id=f"c{step}", step=step)
    assert other.forget("job-1", keep=2) == ("c1",)
    assert other.collect_garbage().blocks == 0
    vault.seal(a_manifest({"weights": b"abc"}, checkpoint_id="c4", step=4))
    assert stored(store, b"abc") == b"abc"
    other.collect_garbage()
    assert stored(store, b"abc") == b"abc"


def test_a_copy_that_was_found_missing_is_not_built_on(
    store: Any, vault: MirrorVault, tmp_path: Path
) -> None:
    objects = Objects(store, "memory")
    lost = sealed(vault, {"weights": b"abc"}, checkpoint_id="c1", step=1)
    objects.delete([listed.key for listed in objects.list("blocks/")])
    other = MirrorVault(BucketDesk(objects), tmp_path / "other", limit_bytes=10**9)
    other.latest("job-1")
    with pytest.raises(MissingBlock):
        other.read_block(lost.files[0].blocks[0])
    third = MirrorVault(BucketDesk(objects), tmp_path / "third", limit_bytes=10**9)
    sealed(third, {"weights": b"abc"}, checkpoint_id="c2", step=2)
    assert stored(store, b"abc") == b"abc"


def test_a_damaged_copy_is_replaced_and_older_checkpoints_are_healed_with_it(
    store: Any, vault: MirrorVault, tmp_path: Path
) -> None:
    objects = Objects(store, "memory")
    first = sealed(vault, {"weights": b"abc" * 100}, checkpoint_id="c1", step=1)
    (copy,) = objects.list("blocks/")
    objects.put(copy.key, b"torn")
    other = MirrorVault(BucketDesk(objects, grace_s=0.0), tmp_path / "other", limit_bytes=10**9)
    with pytest.raises(VaultFault):
        restore_directory(other, first, tmp_path / "restored")
    sealed(other, {"weights": b"abc" * 100}, checkpoint_id="c2", step=2)
    third = MirrorVault(BucketDesk(objects, grace_s=0.0), tmp_path / "third", limit_bytes=10**9)
    restore_directory(third, third.get("job-1", "c1"), tmp_path / "restored")
    assert (tmp_path / "restored" / "weights").read_bytes() == b"abc" * 100
