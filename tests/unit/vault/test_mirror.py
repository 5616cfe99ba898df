"""What a mirror takes of a machine's disk where nothing is saved and much is fetched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpunion.adapters.files.desk import DirectoryDesk
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.mirror import MIRROR_GRACE_S, MirrorVault
from gpunion.ports.vault import Vault
from tests.builders.checkpoints import a_key, name_of, sealed

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


def make_old(vault: DirectoryVault) -> None:
    for path in vault.stored():
        about = path.stat()
        os.utime(path, (about.st_atime, about.st_mtime - 2 * MIRROR_GRACE_S))
