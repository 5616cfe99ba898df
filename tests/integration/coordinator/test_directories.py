"""Directories of jobs on a real coordinator: killed, full, and going on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem
from gpunion.vault.job_directories import decode_record
from gpunion.vault.manifest import CheckpointLabel
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.ship import ship_directory
from tests.integration.coordinator.process import Coordinator, a_job
from tests.trees import a_tree

TREE = a_tree({"train.py": b"print(1)", "data": bytes(5_000_000)})


def test_what_was_acknowledged_outlives_a_kill_and_a_full_disk_is_told(coordinator: Coordinator) -> None:
    with coordinator.start().client() as client:
        first, *rest = client.offer_tree(TREE.digest, TREE.listing)["missing"]
        client.put_blocks({first: TREE.blocks[first]})
    coordinator.end(signal.SIGKILL)

    with coordinator.start(GPUNION_COORDINATOR_KEEP_FREE_BYTES=str(2**62)).client() as client:
        assert client.offer_tree(TREE.digest, TREE.listing)["missing"] == rest
        with pytest.raises(ApiProblem, match="are free") as told:
            client.put_blocks({name: TREE.blocks[name] for name in rest})
        assert (told.value.status, told.value.code) == (507, "no_room")
        assert "only the rest will go" in told.value.next_step
        assert client.jobs()["jobs"] == []  # it is alive and answers
    coordinator.end()

    with coordinator.start().client() as client:
        client.put_blocks({name: TREE.blocks[name] for name in rest})
        assert client.offer_tree(TREE.digest, TREE.listing)["kept"]
        assert client.submit(a_job(bundle=TREE.digest))["job"]["bundle"] == TREE.digest


def test_the_output_of_a_job_that_is_not_over_is_what_its_newest_checkpoint_has(
    shared: Coordinator, client: Client, tmp_path: Path
) -> None:
    job_id = client.submit(a_job())["job"]["id"]
    with pytest.raises(ApiProblem) as told:
        client.output(job_id)
    assert (told.value.status, told.value.code) == (404, "no_output")
    for part, text in (("checkpoint", "state"), ("output/sub", "made")):
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "file").write_text(text)
    vault = DirectoryVault(shared.data_dir / "vault")
    for step in (1, 2):
        label = CheckpointLabel(
            checkpoint_id=f"c{step}",
            job_id=job_id,
            epoch=1,
            step=step,
            progress=0.5,
            tier="app",
            created_s=0.0,
        )
        ship_directory(vault, tmp_path, label)
    answer = client.output(job_id)
    assert (answer["checkpoint_id"], answer["final"], answer["step"]) == ("c2", False, 2)
    files = {entry.path: entry for entry in decode_record(answer)}
    assert sorted(files) == ["sub", "sub/file"]
    wanted = files["sub/file"].blocks
    assert dict(client.output_blocks(job_id, "c2", wanted)) == {wanted[0]: b"made"}
    with pytest.raises(ApiProblem) as told:
        list(client.output_blocks(job_id, "c9", wanted))
    assert told.value.code == "output_changed"
    with pytest.raises(ApiProblem) as told:
        list(client.output_blocks(job_id, "c2", ["0" * 64]))
    assert told.value.code == "not_found"
