"""What a mirror takes of a machine: of its disk, of its processor; and what it costs when it is damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpunion.vault.manifest import Vault
from gpunion.vault.stores.folder.blocks import Blocks
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.vault import MIRROR_GRACE_S, MirrorVault
from tests.builders.checkpoints import a_key, name_of, sealed, series, state

BLOCK_BYTES = 1000
CONTENTS = {str(number): os.urandom(BLOCK_BYTES) for number in range(8)}


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize(("limit_bytes", "left"), [(BLOCK_BYTES, 1), (100 * BLOCK_BYTES, len(CONTENTS))])
def test_what_was_fetched_long_ago_goes_once_the_mirror_is_over_its_limit(
    tmp_path: Path, limit_bytes: int, left: int, encrypted: bool
) -> None:
    vault = DirectoryVault(tmp_path / "vault")
    sealed(vault.keyed(a_key()) if encrypted else vault, CONTENTS)
    mirror = MirrorVault(DirectoryDesk(vault), tmp_path / "mirror", limit_bytes=limit_bytes)
    here = DirectoryVault(tmp_path / "mirror")
    for _again in range(2):
        for data in CONTENTS.values():
            view: Vault = mirror.keyed(a_key()) if encrypted else mirror  # as every request makes its own
            assert view.read_block(name_of(data)) == data
            make_old(here)
    assert len(list(here.stored())) == left


def test_what_is_fetched_is_unpacked_once_and_nothing_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = DirectoryVault(tmp_path / "vault")
    series(vault, 3)
    mirror = MirrorVault(DirectoryDesk(vault), tmp_path / "mirror", limit_bytes=10**9)
    verified: list[str] = []

    def count(blocks: Blocks, name: str, data: bytes) -> bytes:
        verified.append(name)
        return data

    monkeypatch.setattr(Blocks, "_verified", count)
    monkeypatch.setattr(os, "fsync", lambda descriptor: pytest.fail("what is only a memory was synced"))
    assert bytes(mirror.lend_block(name_of(state(2)))) == state(2)
    assert bytes(mirror.lend_block(name_of(state(1)))) == state(1)
    assert verified == [name_of(state(2)), name_of(state(1))]


def test_a_damaged_mirror_costs_bytes_and_no_save(tmp_path: Path) -> None:
    vault = DirectoryVault(tmp_path / "vault")
    mirror = MirrorVault(DirectoryDesk(vault), tmp_path / "mirror", limit_bytes=10**9)
    data = state(0)
    mirror.begin("job-1", 1)
    mirror.put(name_of(data), data)
    damage(DirectoryVault(tmp_path / "mirror"), name_of(data))
    vault.blocks.path(name_of(data)).unlink()  # as if collected: the mirror's is what goes there again
    sealed(mirror, {"w": data})
    assert vault.read_block(name_of(data)) == data
    sealed(mirror, {"w": data}, checkpoint_id="job-1-e1-c2", step=11)


@pytest.mark.parametrize("record", ["vault.json", "jobs/*/epoch.json", "jobs/*/manifests/*.json"])
def test_a_power_cut_costs_no_save_and_lets_no_mirror_grow(tmp_path: Path, record: str) -> None:
    """Nothing in it is synced: a record may be there and empty when the machine comes back."""
    vault, root = DirectoryVault(tmp_path / "vault"), tmp_path / "mirror"
    limit_bytes = 2 * BLOCK_BYTES
    before = MirrorVault(DirectoryDesk(vault), root, limit_bytes=limit_bytes)
    sealed(before, {"w": CONTENTS["0"]}, checkpoint_id="c0", step=0)
    [path] = root.glob(record)
    path.write_bytes(b"")
    mirror = MirrorVault(DirectoryDesk(vault), root, limit_bytes=limit_bytes)
    assert most_kept(mirror, DirectoryVault(root), {}) <= 4


def test_a_mirror_that_lacks_what_a_save_has_does_not_grow_either(tmp_path: Path) -> None:
    vault = DirectoryVault(tmp_path / "vault")
    frozen = {"frozen": os.urandom(BLOCK_BYTES)}
    sealed(vault, frozen, checkpoint_id="c0", step=0)  # by another machine; need not be sent again
    mirror = MirrorVault(DirectoryDesk(vault), tmp_path / "mirror", limit_bytes=2 * BLOCK_BYTES)
    assert most_kept(mirror, DirectoryVault(tmp_path / "mirror"), frozen) <= 4


def most_kept(mirror: Vault, here: DirectoryVault, unchanged: dict[str, bytes]) -> int:
    """How many blocks are in the mirror when it holds most, over some saves that come seldom."""
    most = 0
    for number in range(1, len(CONTENTS)):
        contents = {"w": CONTENTS[str(number)], **unchanged}
        sealed(mirror, contents, checkpoint_id=f"c{number}", step=number)
        make_old(here)
        most = max(most, len(list(here.stored())))
    return most


def damage(vault: DirectoryVault, name: str) -> None:
    """Behind the head."""
    path = vault.blocks.path(name)
    stored = bytearray(path.read_bytes())
    at = vault.blocks.head(name).stored_bytes // 20
    stored[at] ^= 0xFF
    path.write_bytes(stored)


def make_old(vault: DirectoryVault) -> None:
    for path in vault.stored():
        about = path.stat()
        os.utime(path, (about.st_atime, about.st_mtime - 2 * MIRROR_GRACE_S))
