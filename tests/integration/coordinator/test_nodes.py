"""Machines that leave without their agent, and machines that are taken off the list."""

from __future__ import annotations

import asyncio

import pytest

from gpunion.adapters.http.requests import HttpRegistrar
from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem
from tests.integration.coordinator.process import Coordinator, FakeNode


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
    with shared.node("gamma"):
        assert client.node("gamma")["phase"] == "sharing"


def test_a_machine_that_could_not_keep_what_it_was_given_may_have_its_name_again(
    shared: Coordinator, client: Client
) -> None:
    def enrols() -> str:
        given = client.enrol(client.make_join_token()["join_token"], "delta")
        credentials.append(given["credential"])
        return str(given["node_id"])

    credentials: list[str] = []
    assert (enrols(), enrols()) == ("delta", "delta-2")
    asyncio.run(HttpRegistrar(shared.url).farewell(credentials[0]))
    assert (enrols(), enrols()) == ("delta", "delta-3")


def test_a_machine_that_said_farewell_and_comes_after_all_keeps_its_name(shared: Coordinator) -> None:
    name, credential = shared.enrol("epsilon")
    asyncio.run(HttpRegistrar(shared.url).farewell(credential))
    with shared.connection(credential) as socket:
        node = FakeNode(name, credential, socket)
        node.send(node.hello())
        node.receive()
        other, _ = shared.enrol("epsilon")
        assert (name, other) == ("epsilon", "epsilon-2")
