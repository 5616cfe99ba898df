"""Machines that leave without their agent, and machines that are taken off the list."""

from __future__ import annotations

import asyncio

import pytest

from gpunion.adapters.http.requests import HttpRegistrar
from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem
from tests.integration.coordinator.process import Coordinator, FakeNode, a_job


def test_a_machine_leaves_without_its_agent_and_is_taken_off_the_list(
    shared: Coordinator, client: Client
) -> None:
    with shared.node("gamma") as node:
        with pytest.raises(ApiProblem, match="joined") as refused:
            client.remove_node("gamma")
        assert (refused.value.status, refused.value.code) == (409, "node_in_use")
        with shared.client(node.credential) as stranger, pytest.raises(ApiProblem) as forbidden:
            stranger.remove_node("gamma")
        assert forbidden.value.status == 403
    for _ in range(2):
        asyncio.run(HttpRegistrar(shared.url).farewell(node.credential))
    assert client.node("gamma")["phase"] == "left"
    assert client.remove_node("gamma")["id"] == "gamma"
    assert "gamma" not in [one["id"] for one in client.nodes(all=True)]
    for gone in (client.node, client.remove_node):
        with pytest.raises(ApiProblem, match="no node gamma"):
            gone("gamma")
    with shared.connection(node.credential) as socket:  # the same machine, with what it was given
        again = FakeNode("gamma", node.credential, socket)
        again.send(again.hello())
        again.receive()
        assert client.node("gamma")["phase"] == "sharing"


def test_a_machine_that_joins_under_the_name_of_one_that_left_is_another_node(
    shared: Coordinator, client: Client
) -> None:
    with shared.node("delta") as gone:
        asyncio.run(HttpRegistrar(shared.url).farewell(gone.credential))
    with shared.node("delta") as next_one:
        assert (gone.node_id, next_one.node_id) == ("delta", "delta-2")
        assert client.node("delta")["phase"] == "left"
        assert client.node("delta-2")["phase"] == "sharing"


def test_a_machine_that_said_farewell_and_comes_after_all_keeps_its_name(shared: Coordinator) -> None:
    name, credential = shared.enrol("epsilon")
    asyncio.run(HttpRegistrar(shared.url).farewell(credential))
    with shared.connection(credential) as socket:
        node = FakeNode(name, credential, socket)
        node.send(node.hello())
        node.receive()
        other, _ = shared.enrol("epsilon")
        assert (name, other) == ("epsilon", "epsilon-2")


def test_what_is_free_shrinks_by_what_a_job_holds(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as client, coordinator.node(gpus=2):
        [before] = client.free()["nodes"]
        client.submit(a_job())
        [after] = client.free()["nodes"]
    assert (len(before["gpus"]), len(after["gpus"])) == (2, 1)
    assert before["cpus"] - after["cpus"] == 1.0
    assert after["until"] is None
