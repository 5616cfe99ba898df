"""The campus's vault over HTTP: what a node is refused, and what it may bring of a run that is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpunion.adapters.files import manifests as manifest_format
from gpunion.adapters.files.desk import DirectoryDesk
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.packing import SealedPacking
from gpunion.adapters.files.replicas import DeskReplicas
from gpunion.adapters.http.vault_desk import HttpVaultDesk
from gpunion.domain.frames import OrderFrame
from gpunion.domain.orders import StartRun
from gpunion.ports.vault import BadManifest, JobKey, Manifest, OldEpoch, VaultFull, VaultUnavailable
from gpunion.ports.vault_desk import VaultDesk
from gpunion.sdk.client import Client
from tests.builders.checkpoints import sealed
from tests.integration.coordinator.process import Coordinator, a_job

NAME = "ab" * 32
STORED = SealedPacking(JobKey(job_id="any", secret=bytes(32))).encode(NAME, b"made up", None)


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
    with pytest.raises(VaultUnavailable, match="was given no run of"):
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

    def saved(self, **changes: object) -> Manifest:
        return sealed(self.folder, {"w": b"weights"}, job_id=self.job_id, **changes)


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


def test_what_an_older_run_sealed_is_copied_after_the_next_has_begun_and_its_new_saves_are_refused(
    copying: Copying,
) -> None:
    manifest = copying.saved(epoch=0)
    copying.campus.begin(copying.job_id, 1)
    assert copying.copy() == {}
    assert copying.in_campus.latest(copying.job_id) == manifest
    late = manifest_format.encode(replace(manifest, checkpoint_id="late", step=11))
    with pytest.raises(OldEpoch):
        copying.campus.seal(copying.job_id, late)


def test_a_copy_of_a_run_that_nobody_was_given_is_refused_and_shuts_out_no_run(copying: Copying) -> None:
    copying.campus.begin(copying.job_id, 1)
    manifest = copying.saved(epoch=2)
    with pytest.raises(VaultUnavailable, match="there is no checkpoint of epoch 2"):
        copying.campus.begin_copy(copying.job_id, 2)
    with pytest.raises(BadManifest, match="has not begun here"):
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
