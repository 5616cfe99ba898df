"""How many threads a vault takes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from gpunion.vault.bounded import open_own_bounded
from gpunion.vault.cores import THREADS_MAX, cores, threads
from gpunion.vault.files_ready import DirectoryReady, restore_from_ready
from gpunion.vault.manifest import Vault, VaultUnavailable
from gpunion.vault.replicated import NamedVault, ReplicatedVault
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.timeout_guard import Patience
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.ship import ship_directory
from gpunion.vault.vault import MirrorVault
from tests.builders.checkpoints import a_key, a_label

GIB = 1 << 30
MEETING_LIMIT_S = 60.0


def allowed(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(count)))


def test_only_cores_that_this_process_may_use_count(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, 3)
    assert (cores(), threads(), threads(more=1), threads(per_core=2)) == (3, 3, 4, 6)


def test_a_large_machine_does_not_get_more_than_python_can_keep_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, 64)
    assert threads() == threads(per_core=2) == THREADS_MAX


def test_a_vault_says_whether_it_is_waited_for_however_it_is_wrapped(tmp_path: Path) -> None:
    folder = open_own_bounded(tmp_path / "vault", "", Patience()).vault
    afar = MirrorVault(DirectoryDesk(DirectoryVault(tmp_path / "afar")), tmp_path / "mirror", limit_bytes=GIB)

    def away() -> Vault:
        raise VaultUnavailable("not mounted")

    def together(*opens: Callable[[], Vault]) -> Vault:
        return ReplicatedVault([NamedVault(f"place {n}", opened) for n, opened in enumerate(opens)])

    waited_for = {
        "a folder": folder,
        "a folder and the network": together(lambda: folder, lambda: afar),
        "the network": afar,
        "a folder that is away, and the network": together(away, lambda: afar),
        "nothing": together(away),
    }
    assert [name for name, vault in waited_for.items() if not vault.keyed(a_key()).waits_for_blocks()] == [
        "a folder",
        "a folder and the network",
    ]


@dataclass
class Meeting:
    """A vault whose blocks are given once as many threads ask as are expected."""

    vault: DirectoryVault
    threads: threading.Barrier
    waiting: bool
    seen: set[int] = field(default_factory=set)

    def __getattr__(self, name: str) -> object:
        return getattr(self.vault, name)

    def waits_for_blocks(self) -> bool:
        return self.waiting

    def lend_block(self, block_hash: str) -> bytes | memoryview:
        self.seen.add(threading.get_ident())
        self.threads.wait(MEETING_LIMIT_S)
        return self.vault.lend_block(block_hash)


@pytest.mark.parametrize("lies_ready", [False, True])
@pytest.mark.parametrize(("waiting", "expected"), [(False, 2), (True, 3)])
def test_a_restore_from_afar_has_one_thread_more_to_wait_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waiting: bool, expected: int, lies_ready: bool
) -> None:
    allowed(monkeypatch, 2)
    folder = DirectoryVault(tmp_path / "vault")
    (tmp_path / "work").mkdir()
    for number in range(6):
        (tmp_path / "work" / f"{number}").write_bytes(b"%d" % number)
    manifest = ship_directory(folder, tmp_path / "work", a_label())
    vault = Meeting(folder, threading.Barrier(expected), waiting)
    if lies_ready:
        ready = DirectoryReady(tmp_path / "states", limit_bytes=GIB)
        restore_from_ready(cast(Vault, vault), ready, manifest, tmp_path / "restored")
    else:
        restore_directory(cast(Vault, vault), manifest, tmp_path / "restored")
    assert len(vault.seen) == expected
