"""The campus's vault over HTTP: what a node is refused, and what it may bring of a run that is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpunion.domain.protocol.frames import OrderFrame
from gpunion.domain.protocol.orders import StartRun
from gpunion.sdk.client import Client
from gpunion.vault import manifests as manifest_format
from gpunion.vault.http.vault_desk import HttpVaultDesk
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import JobKey, Manifest, NotYours, VaultFull
from gpunion.vault.packing import SealedPacking
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.replicate import DeskReplicas
from tests.builders.checkpoints import sealed
from tests.integration.coordinator.process import Coordinator, a_job

NAME = "ab" * 32
STORED = bytes(SealedPacking(JobKey(job_id="any", secret=bytes(32))).pack(NAME, b"made up"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda desk, job_id: desk.has([NAME], job_id),
        lambda desk, job_id: desk.put(NAME, STORED, job_id),
        lambda desk, job_id: desk.fetch(NAME, job_id),
        lambda desk, job_id: desk.doubt(NAME, job_id),
        lambda desk, job_id: desk.begin_copy(job_id, 1),
        lambda desk, job_id: desk.adopt(job_id, b"{}"),
    ],
    ids=["has", "put", "fetch", "doubt", "begin-copy", "adopt"],
)
def test_a_node_that_was_given_no_run_is_refused(
    shared: Coordinator,
    client: Client,
    ask: Callable[[HttpVaultDesk, str], object],
    request: pytest.FixtureRequest,
) -> None:
    job_id = client.submit(a_job(checkpoint={"encrypt": True}))["job"]["id"]
    _, credential = shared.enrol(f"stranger-{request.node.callspec.id}")
    with pytest.raises(NotYours, match="was given no run of"):
        ask(HttpVaultDesk(shared.url, credential), job_id)
    assert not list((shared.data_dir / "vault").glob(f"jobs/{job_id}/*"))
    client.stop(job_id)


@dataclass
class Copying:
    """A node that ran a job and has its first place in a folder of its own."""

    job_id: str
    campus: HttpVaultDesk
    folder: DirectoryVault
    in_campus: DirectoryVault

    def copy(self) -> dict[str, str]:
        desks: dict[str, VaultDesk] = {"folder": DirectoryDesk(self.folder), "campus": self.campus}
        replicas = DeskReplicas(desks.__getitem__)
        done = replicas.complete(
            self.job_id, tuple(desks), pace=lambda sent_bytes: None, cancelled=lambda: False
        )
        return dict(done.troubles)

    def saved(self, name: str, epoch: int, **changes: object) -> Manifest:
        named = f"{self.job_id}-e{epoch}-{name}"
        return sealed(
            self.folder, {"w": b"weights"}, job_id=self.job_id, checkpoint_id=named, epoch=epoch, **changes
        )


@pytest.fixture
def copying(shared: Coordinator, client: Client, tmp_path: Path) -> Iterator[Copying]:
    with shared.node(name=f"saver-{tmp_path.name}") as node:
        job_id = client.submit(a_job())["job"]["id"]
        start = node.receive_a(OrderFrame).order
        assert isinstance(start, StartRun)
        assert start.job_id == job_id
        yield Copying(
            job_id,
            HttpVaultDesk(shared.url, node.credential),
            DirectoryVault(tmp_path / "folder"),
            DirectoryVault(shared.data_dir / "vault"),
        )
        client.stop(job_id)


def test_what_a_run_sealed_elsewhere_is_copied_and_what_no_run_has_made_is_passed_over(
    copying: Copying,
) -> None:
    copying.saved("c1", epoch=0)  # which nobody was ever given
    manifest = copying.saved("c1", epoch=1)
    copying.campus.begin(copying.job_id, 1)
    assert copying.copy() == {}
    assert copying.in_campus.manifests(copying.job_id) == (manifest,)
    foreign = manifest_format.encode(replace(manifest, checkpoint_id=f"{copying.job_id}-e2-c1"))
    with pytest.raises(NotYours, match="cannot be of"):
        copying.campus.seal(copying.job_id, foreign)


def test_a_copy_of_a_run_that_nobody_was_given_is_refused_and_shuts_out_no_run(copying: Copying) -> None:
    copying.campus.begin(copying.job_id, 1)
    manifest = copying.saved("c1", epoch=2)
    with pytest.raises(NotYours, match="there is no checkpoint of epoch 2"):
        copying.campus.begin_copy(copying.job_id, 2)
    with pytest.raises(NotYours, match="there is no checkpoint of epoch 2"):
        copying.campus.adopt(copying.job_id, manifest_format.encode(manifest))
    copying.campus.begin(copying.job_id, 1)


def test_a_vault_that_would_take_nothing_says_so_to_every_node(coordinator: Coordinator) -> None:
    coordinator.start()
    _, credential = coordinator.enrol()
    HttpVaultDesk(coordinator.url, credential).check_room()
    coordinator.end()
    coordinator.start(GPUNION_COORDINATOR_KEEP_FREE_BYTES=str(2**62))
    with pytest.raises(VaultFull, match=r"nearly full: .* stay free for"):
        HttpVaultDesk(coordinator.url, credential).check_room()
