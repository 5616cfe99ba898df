"""What is saved lies ready for other machines, who hear of it as it reaches the vault."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from blake3 import blake3

from gpunion.domain.passes import PeerPass
from gpunion.domain.resources import GIB
from gpunion.vault.files_ready import DirectoryReady
from gpunion.vault.http.client import TcpPeers
from gpunion.vault.http.running_saves import keeping
from gpunion.vault.manifest import CheckpointLabel, Manifest, ShipCancelled
from gpunion.vault.stores.folder.store import DirectoryVault
from tests.unit.peers.alpha import DATA, JOB, NAME, Alpha


class Follower:
    """Hears what reaches the vault, in a thread."""

    def __init__(self, given: PeerPass) -> None:
        self.told: list[str] = []
        self._given = given
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        with TcpPeers().meet(JOB, self._given) as peer:
            for name in peer.names(lambda: False):
                self.told.append(name)

    def hears(self, name: str) -> None:
        until_s = time.monotonic() + 60.0
        while name not in self.told:
            assert time.monotonic() < until_s, "it never heard of it"
            time.sleep(0.005)

    def ends(self) -> bool:
        self._thread.join(60.0)
        return not self._thread.is_alive()


def test_whoever_follows_a_save_hears_of_blocks_as_they_reach_the_vault(alpha: Alpha, tmp_path: Path) -> None:
    vault = DirectoryVault(tmp_path / "vault")
    follower = Follower(alpha.pass_for())  # before or after it begins
    with keeping(vault, alpha.desk, alpha.ready, JOB) as keeping_vault:
        keeping_vault.begin(JOB, 1)
        keeping_vault.put(NAME, DATA)
        follower.hears(NAME)
        assert vault.read_block(NAME) == DATA  # it is there before anybody is told
        keeping_vault.seal(a_manifest())
    assert follower.ends()
    assert follower.told == [NAME]
    assert alpha.ready.lacking(JOB, [NAME]) == {NAME}  # what was sealed does not name it


def test_a_save_that_comes_to_nothing_ends_for_whoever_follows_and_the_next_is_another(alpha: Alpha) -> None:
    alpha.desk.began(JOB)
    alpha.desk.arrived(JOB, NAME)
    follower = Follower(alpha.pass_for())
    follower.hears(NAME)
    alpha.desk.ended(JOB)
    assert follower.ends()
    told = alpha.desk.names(JOB, None, 0, 0.0)
    assert (told.save, told.names, told.over) == (2, [], False)  # not the one that is over
    alpha.desk.began(JOB)
    alpha.desk.began(JOB)
    assert alpha.desk.names(JOB, 2, 0, 0.0).over  # a newer one has begun


def test_of_a_cancelled_save_nothing_stays_ready_but_what_was_there_before(
    alpha: Alpha, tmp_path: Path
) -> None:
    before = b"of an earlier save"
    alpha.ready.put(JOB, blake3(before).hexdigest(), before)
    vault = DirectoryVault(tmp_path / "vault")

    def cancelled_save() -> None:
        with keeping(vault, alpha.desk, alpha.ready, JOB) as keeping_vault:
            keeping_vault.begin(JOB, 1)
            keeping_vault.put(NAME, DATA)
            raise ShipCancelled("a notice came")

    with pytest.raises(ShipCancelled):
        cancelled_save()
    assert alpha.ready.lacking(JOB, [NAME, blake3(before).hexdigest()]) == {NAME}


def test_what_is_sealed_is_sealed_whatever_this_disk_says(alpha: Alpha, tmp_path: Path) -> None:
    class Failing(DirectoryReady):
        def make_room(self, job_id: str, size_bytes: int) -> bool:
            raise OSError("the disk is gone")

    vault, failing = DirectoryVault(tmp_path / "vault"), Failing(tmp_path / "states", limit_bytes=GIB)
    with keeping(vault, alpha.desk, failing, JOB) as keeping_vault:
        keeping_vault.begin(JOB, 1)
        keeping_vault.seal(a_manifest())
    assert [manifest.checkpoint_id for manifest in vault.manifests(JOB)] == ["c1"]


def test_what_there_is_no_room_for_goes_to_the_vault_alone(alpha: Alpha, tmp_path: Path) -> None:
    vault, small = DirectoryVault(tmp_path / "vault"), DirectoryReady(tmp_path / "small", limit_bytes=1000)
    with keeping(vault, alpha.desk, small, JOB) as keeping_vault:
        keeping_vault.begin(JOB, 1)
        keeping_vault.put(NAME, DATA)
    assert vault.read_block(NAME) == DATA
    assert small.lacking(JOB, [NAME]) == {NAME}


def test_without_an_open_port_the_vault_is_used_as_it_is(alpha: Alpha, tmp_path: Path) -> None:
    vault = DirectoryVault(tmp_path / "vault")
    with keeping(vault, None, alpha.ready, JOB) as same:
        assert same is vault


def a_manifest() -> Manifest:
    label = CheckpointLabel(
        checkpoint_id="c1", job_id=JOB, epoch=1, step=1, progress=0.0, tier="app", created_s=0.0
    )
    return Manifest(
        **{name: getattr(label, name) for name in label.__slots__},
        parent=None,
        files=(),
        block_size_bytes=4 * 1024**2,
        total_bytes=0,
        new_bytes=0,
    )
