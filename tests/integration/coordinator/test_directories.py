"""Directories of jobs on a real coordinator: killed, full, and going on."""

from __future__ import annotations

import signal

import pytest

from gpunion.sdk.errors import ApiProblem
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
