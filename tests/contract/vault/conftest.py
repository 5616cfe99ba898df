"""Every vault under one suite. A new one (a node's agent, a simulator's model) joins `VAULTS`."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from gpunion.domain.passes import admission, key_of_place, why_not_admitted
from gpunion.tls import own_certificate, showing
from gpunion.vault.encryption import JobCipher
from gpunion.vault.http.vault_desk import HttpVaultDesk
from gpunion.vault.http.vault_server import VaultServer
from gpunion.vault.manifest import Vault
from gpunion.vault.replicated import NamedVault, ReplicatedVault
from gpunion.vault.stores.bucket.bucket import open_bucket
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.bucket.store import BucketDesk
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.vault import MirrorVault
from tests.builders.checkpoints import a_key
from tests.contract.vault.two_places import TwoPlaces
from tests.s3_server import S3Server, s3_server


@dataclass
class Place:
    """Somewhere a vault can be opened again and again, as if from several machines."""

    open: Callable[..., Vault]  # with the job, where that is not job-1
    damage_block: Callable[[str], None]
    damage_manifests: Callable[[], None]


def damage(path: Path) -> None:
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 2] ^= 0xFF
    path.write_bytes(stored)


def directory(tmp_path: Path) -> Place:
    root = tmp_path / "vault"

    def damage_block(block_hash: str) -> None:
        damage(next(root.rglob(f"blocks/*/{block_hash}")))

    def damage_manifests() -> None:
        for path in root.glob("jobs/*/manifests/*.json"):
            path.write_bytes(path.read_bytes().replace(b"step", b"stop", 1))

    # No grace: only what protects by itself protects here.
    return Place(
        open=lambda job_id="job-1": DirectoryVault(root, grace_s=0.0),
        damage_block=damage_block,
        damage_manifests=damage_manifests,
    )


def mirrored(tmp_path: Path) -> Place:
    """Each opened by another machine: a mirror of its own, the same vault behind."""
    place = directory(tmp_path)
    mirrors = itertools.count()

    def open_mirrored(job_id: str = "job-1") -> Vault:
        vault = place.open()
        assert isinstance(vault, DirectoryVault)
        mirror = tmp_path / f"mirror-{next(mirrors)}"
        return MirrorVault(DirectoryDesk(vault), mirror, limit_bytes=10**9)

    def damage_every_copy(block_hash: str) -> None:
        place.damage_block(block_hash)
        for mirror in tmp_path.glob("mirror-*"):
            for path in mirror.rglob(f"blocks/*/{block_hash}"):
                damage(path)

    return replace(place, open=open_mirrored, damage_block=damage_every_copy)


@contextmanager
def at_a_keeper(tmp_path: Path) -> Iterator[Place]:
    """The same over a real connection to the machine that keeps it."""
    place = directory(tmp_path)
    key, file, mirrors = key_of_place("5a" * 32, "attic", "box"), tmp_path / "keeper.pem", itertools.count()
    certificate, vault = own_certificate(file), place.open()
    assert isinstance(vault, DirectoryVault)
    desk = DirectoryDesk(vault)
    server = VaultServer(
        lambda: desk,
        why_not=lambda shown: why_not_admitted(key, shown, 0.0),
        pace=lambda size_bytes, waiting: None,
        host="127.0.0.1",
        port=0,
        security=showing(file),
    )
    server.start()

    def open_there(job_id: str = "job-1") -> Vault:
        over_there = HttpVaultDesk(
            f"https://{server.address}", admission(key, "laptop", 0.0), certificate=certificate
        )
        return MirrorVault(over_there, tmp_path / f"mirror-{next(mirrors)}", limit_bytes=10**9)

    def damage_every_copy(block_hash: str) -> None:
        place.damage_block(block_hash)
        for path in tmp_path.glob(f"mirror-*/blocks/*/{block_hash}"):
            damage(path)

    try:
        yield replace(place, open=open_there, damage_block=damage_every_copy)
    finally:
        server.close()


def bucket(connect: Callable[[], Objects], tmp_path: Path) -> Place:
    """The same with a bucket behind. Each machine remembers for itself what it has under way."""
    mirrors = itertools.count()
    objects = connect()

    def open_vault(job_id: str = "job-1") -> Vault:
        mirror = tmp_path / f"mirror-{next(mirrors)}"
        return MirrorVault(BucketDesk(connect(), grace_s=0.0), mirror, limit_bytes=10**9)

    def damage_object(key: str, change: Callable[[bytes], bytes]) -> None:
        found = objects.get(key)
        assert found is not None
        objects.put(key, change(found.data))

    def flip(stored: bytes) -> bytes:
        middle = len(stored) // 2
        return stored[:middle] + bytes([stored[middle] ^ 0xFF]) + stored[middle + 1 :]

    def damage_every_copy(block_hash: str) -> None:
        copies = [listed.key for listed in objects.list("") if f"/{block_hash}/" in listed.key]
        assert copies
        for key in copies:
            damage_object(key, flip)
        for mirror in tmp_path.glob("mirror-*"):
            for path in mirror.rglob(f"blocks/*/{block_hash}"):
                damage(path)

    def damage_manifests() -> None:
        for listed in objects.list("jobs/"):
            if "/manifests/" in listed.key:
                damage_object(listed.key, lambda data: data.replace(b"step", b"stop", 1))

    return Place(open=open_vault, damage_block=damage_every_copy, damage_manifests=damage_manifests)


def in_memory(tmp_path: Path) -> Place:
    """obstore's own store in memory: the same rules without a server."""
    from obstore.store import MemoryStore

    store = MemoryStore()
    return bucket(lambda: Objects(store, "memory"), tmp_path)


def _itself(vault: Vault) -> Vault:
    return vault


def replicated(tmp_path: Path) -> Place:
    """A folder first, a bucket in memory second. What is damaged is damaged in both."""
    both = [directory(tmp_path / "first"), in_memory(tmp_path / "second")]
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()

    def open_both(job_id: str = "job-1") -> Vault:
        opened = [place.open(job_id) for place in both]
        return ReplicatedVault(
            [NamedVault(f"place {number}", partial(_itself, vault)) for number, vault in enumerate(opened)]
        )

    def damage_both(block_hash: str) -> None:
        for place in both:
            with suppress(StopIteration, AssertionError):  # nobody copies here: it lies in one of them
                place.damage_block(block_hash)

    def damage_manifests() -> None:
        for place in both:
            place.damage_manifests()

    return Place(open=open_both, damage_block=damage_both, damage_manifests=damage_manifests)


def encrypted(plain: Callable[[Path], Place]) -> Callable[[Path], Place]:
    """The same for a job with a key. Who asks about blocks never sees what they are stored as."""

    def keyed_place(tmp_path: Path) -> Place:
        place = plain(tmp_path)
        return replace(
            place,
            open=lambda job_id="job-1": place.open().keyed(a_key(job_id)),
            damage_block=lambda block_hash: place.damage_block(JobCipher(a_key()).name(block_hash)),
        )

    return keyed_place


VAULTS = [
    pytest.param(directory, id="directory"),
    pytest.param(mirrored, id="mirrored"),
    pytest.param(encrypted(directory), id="encrypted"),
    pytest.param(encrypted(mirrored), id="encrypted-mirrored"),
    pytest.param(replicated, id="replicated", marks=pytest.mark.requires("s3")),
    pytest.param(encrypted(in_memory), id="encrypted-s3-in-memory", marks=pytest.mark.requires("s3")),
]

# One worker starts the server.
OVER_HTTP = pytest.param(
    None, id="s3", marks=[pytest.mark.requires("s3"), pytest.mark.xdist_group("s3-server")]
)
BUCKET = "campus-vaults"
AT_A_KEEPER = pytest.param(at_a_keeper, id="keeper")


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture(params=[*VAULTS, OVER_HTTP, AT_A_KEEPER])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param is at_a_keeper:
        with at_a_keeper(tmp_path) as found:
            yield found
        return
    if request.param is not None:
        yield request.param(tmp_path)
        return
    server: S3Server = request.getfixturevalue("s3")
    objects = open_bucket(server.bucket(BUCKET, prefix=secrets.token_hex(8)))
    yield bucket(lambda: objects, tmp_path)


@pytest.fixture(params=VAULTS)
def judge(request: pytest.FixtureRequest, tmp_path: Path) -> Vault:
    """For what is refused before the place is asked: a server need not be started for that."""
    vault: Vault = request.param(tmp_path).open()
    return vault


@pytest.fixture
def places(tmp_path: Path) -> TwoPlaces:
    from obstore.store import MemoryStore

    return TwoPlaces(tmp_path, MemoryStore())


@pytest.fixture
def vault(place: Place) -> Vault:
    return place.open()
