"""Blocks of a job with a key, asked for over HTTP by a node that has nothing to do with that job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpunion.adapters.files.packing import SealedPacking
from gpunion.adapters.http.vault_desk import HttpVaultDesk
from gpunion.ports.vault import JobKey, VaultUnavailable
from gpunion.sdk.client import Client
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
    ],
    ids=["has", "put", "fetch", "doubt"],
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
    assert not list((shared.data_dir / "vault").glob(f"jobs/{job_id}/blocks/*/*"))
