"""A job with a key: what lies in the vault, on a node's disk and on the wire is read with that key only."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.vault import manifests as manifest_format
from gpunion.vault.encryption import NONCE_BYTES, JobCipher
from gpunion.vault.manifest import BadManifest, CorruptBlock, JobKey, MissingBlock, Vault, WrongKey
from gpunion.vault.packing import SEALED_HEAD_BYTES, SealedPacking
from gpunion.vault.stores.folder.caretaker import DirectoryCaretaker
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.ship import ship_directory
from gpunion.vault.vault import MirrorVault
from tests.builders.checkpoints import a_key, a_label, a_manifest, name_of, sealed, state
from tests.contract.vault.conftest import damage

MARKER = b"the patients of ward 7"
SECRET_NAME = "ward-7-results.csv"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "vault"


@pytest.fixture
def plain(root: Path) -> DirectoryVault:
    return DirectoryVault(root, grace_s=0.0)


def quietly(done: int, total: int) -> None:
    assert 0 < done <= total


def everything_in(folder: Path) -> bytes:
    """Names and contents of all files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert files
    return b"\n".join(str(path.relative_to(folder)).encode() + b"\n" + path.read_bytes() for path in files)


def stored_name(data: bytes) -> str:
    return JobCipher(a_key()).name(name_of(data))


def save(vault: Vault, source: Path) -> None:
    source.mkdir()
    # Short, so that it would be stored as it is, and long, so that it would be packed.
    (source / SECRET_NAME).write_bytes(MARKER)
    (source / "more").write_bytes(MARKER * 500)
    (source / "link").symlink_to(SECRET_NAME)
    ship_directory(vault, source, a_label())


def test_neither_content_nor_names_lie_in_the_vault_or_in_a_mirror(
    plain: DirectoryVault, root: Path, tmp_path: Path
) -> None:
    save(plain, tmp_path / "unencrypted")
    for secret in (MARKER, SECRET_NAME.encode(), name_of(MARKER).encode()):
        assert secret in everything_in(root), "this search would find it"
    shutil.rmtree(root)

    mirrored = MirrorVault(DirectoryDesk(DirectoryVault(root)), tmp_path / "mirror", limit_bytes=10**9)
    save(mirrored.keyed(a_key()), tmp_path / "encrypted")
    for place in (root, tmp_path / "mirror"):
        for secret in (MARKER, SECRET_NAME.encode(), name_of(MARKER).encode(), a_key().secret):
            assert secret not in everything_in(place)

    vault = DirectoryVault(root).keyed(a_key())
    restore_directory(vault, vault.get("job-1", "job-1-e1-c1"), tmp_path / "back")
    assert (tmp_path / "back" / SECRET_NAME).read_bytes() == MARKER
    assert (tmp_path / "back" / "link").read_bytes() == MARKER


def test_without_the_key_or_with_another_one_nothing_is_read_and_the_fault_says_why(
    plain: DirectoryVault, tmp_path: Path
) -> None:
    sealed(plain.keyed(a_key()), {"w": MARKER})
    other = plain.keyed(JobKey(job_id="job-1", secret=bytes(32)))
    for ask in (other.latest, other.manifests):
        with pytest.raises(WrongKey, match="another key"):
            ask("job-1")
    closed = plain.latest("job-1")
    assert closed is not None
    assert (closed.step, closed.files) == (10, ())
    with pytest.raises(WrongKey, match="the key of job-1 is not here"):
        restore_directory(plain, closed, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    with pytest.raises(WrongKey, match="not for job-2"):
        plain.keyed(a_key()).begin("job-2", 1)
    with pytest.raises(ValueError, match="32 bytes"):
        plain.keyed(JobKey(job_id="job-1", secret=b"short"))


def test_a_key_never_shows_in_words() -> None:
    assert a_key().secret.hex() not in repr(a_key())
    assert str(a_key().secret) not in repr(a_key())


def test_equal_blocks_are_stored_once_in_a_job_and_told_from_nothing_across_jobs(
    plain: DirectoryVault, root: Path
) -> None:
    one, two = plain.keyed(a_key("job-1")), plain.keyed(a_key("job-2"))
    assert one.put(name_of(MARKER), MARKER) > 0
    assert one.put(name_of(MARKER), MARKER) == 0
    assert two.put(name_of(MARKER), MARKER) > 0
    names = {path.name for path in root.glob("jobs/*/blocks/*/*")}
    assert len(names) == 2
    assert not plain.has([name_of(MARKER), *names])


def test_two_blocks_have_two_nonces_and_the_same_block_the_same() -> None:
    packing = SealedPacking(a_key())
    one, other = (bytes(packing.pack(packing.name(name_of(state(n))), state(n))) for n in (0, 1))
    nonces = {stored[SEALED_HEAD_BYTES:][:NONCE_BYTES] for stored in (one, other)}
    assert len(nonces) == 2
    assert packing.pack(packing.name(name_of(state(0))), state(0)) == one


def test_what_a_node_makes_up_for_one_job_is_relied_on_by_no_other(plain: DirectoryVault) -> None:
    """The desk cannot look inside: made-up bytes under the name of a block that others will have."""
    desk = DirectoryDesk(plain)
    name = name_of(b"a well-known dataset")
    made_up = SealedPacking(a_key("job-2")).pack(name, b"something else")
    desk.put(name, bytes(made_up), "job-2")
    with pytest.raises(CorruptBlock):
        desk.put(name, bytes(made_up))
    assert desk.has([name], "job-2") == {name}
    assert desk.has([name], "job-1") == desk.has([name]) == set()
    with pytest.raises(CorruptBlock):
        plain.keyed(a_key("job-2")).blocks.read(name)


@pytest.mark.parametrize("where", [0, 5, 20, 50, 70, 100, -1])
def test_the_desk_takes_no_encrypted_block_that_was_changed_on_the_way(
    plain: DirectoryVault, where: int
) -> None:
    name = stored_name(MARKER)
    stored = bytearray(SealedPacking(a_key()).pack(name, MARKER))
    stored[where] ^= 1
    with pytest.raises((CorruptBlock, MissingBlock)):
        DirectoryDesk(plain).put(name, bytes(stored), "job-1")
    assert DirectoryDesk(plain).has([name], "job-1") == set()
    with pytest.raises(CorruptBlock):
        DirectoryDesk(plain).put(stored_name(b"another"), bytes(stored), "job-1")


def test_the_label_cannot_be_changed_and_no_manifest_passes_for_another(
    plain: DirectoryVault, root: Path
) -> None:
    vault = plain.keyed(a_key())
    sealed(vault, {"w": MARKER})
    path = next(root.glob("jobs/job-1/manifests/*"))
    honest = manifest_format.decode(path.read_bytes())
    for forged in (replace(honest, step=99), a_manifest({"w": MARKER})):
        path.write_bytes(manifest_format.encode(forged))  # with a checksum that is right
        with pytest.raises(BadManifest):
            vault.latest("job-1")
        assert vault.manifests("job-1") == ()


def test_verify_without_keys_finds_damage_and_says_what_it_did_not_read(
    plain: DirectoryVault, root: Path
) -> None:
    vault = plain.keyed(a_key())
    sealed(vault, {"w": state(0)}, checkpoint_id="c1", step=1)
    sealed(vault, {"w": state(0), "v": state(1)}, checkpoint_id="c2", step=2)
    sealed(plain, {"w": b"open"}, job_id="job-2", checkpoint_id="d1")
    sound = DirectoryCaretaker(root).verify(None, quietly)
    assert (sound.checkpoints, sound.encrypted, sound.blocks, sound.unreadable) == (3, 2, 3, ())
    assert sound.plain_bytes == len(b"open")

    shutil.copytree(root, root.with_name("copy"))
    damage(next(root.glob(f"jobs/job-1/blocks/*/{stored_name(state(0))}")))
    found = DirectoryCaretaker(root).verify(None, quietly).unreadable
    assert [lost.checkpoint_id for lost in found] == ["c1", "c2"]
    copy = DirectoryDesk(DirectoryVault(root.with_name("copy"), create=False))
    repaired = DirectoryCaretaker(root).repair(None, copy, quietly)
    assert repaired.replaced == (stored_name(state(0)),)
    assert repaired.set_aside == ()
    assert vault.read_block(name_of(state(1))) == state(1)


def test_the_list_of_files_is_as_strict_as_without_a_key() -> None:
    packing = SealedPacking(a_key())
    closed = packing.close(a_manifest({"w": MARKER}))
    assert packing.open(closed) == a_manifest({"w": MARKER})
    outside = packing.close(
        replace(a_manifest({"w": MARKER}), files=(a_manifest({"../w": MARKER}).files[0],))
    )
    with pytest.raises(BadManifest, match="inside the directory"):
        packing.open(outside)
