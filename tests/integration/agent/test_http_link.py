"""The agent's requests over real HTTP, with a coordinator that answers as ours does, or badly."""

from __future__ import annotations

import socket

import pytest

from gpunion.adapters.http.link import HttpLink
from gpunion.adapters.http.requests import HttpRegistrar
from gpunion.ports.coordinator_link import Application, LinkFault
from tests.integration.agent.campus import TestCampus
from tests.trees import a_tree

APPLICATION = Application(join_token="once", name="a1", lab="alpha")


async def test_a_token_becomes_a_name_and_a_credential(campus: TestCampus) -> None:
    given = await HttpRegistrar(campus.url).enrol(APPLICATION)
    assert (given.node_id, given.credential, given.vault) == ("a1", "secret-of-a1", None)


async def test_a_used_token_is_refused_with_what_to_do_next(campus: TestCampus) -> None:
    with pytest.raises(LinkFault, match=r"the join token is unknown\. Next: ask for a new one") as refused:
        await HttpRegistrar(campus.url).enrol(Application(join_token="used", name="a1", lab="alpha"))
    assert not refused.value.temporary


async def test_nobody_there_is_a_temporary_fault() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(LinkFault) as trouble:
        await HttpRegistrar(url).enrol(APPLICATION)
    assert trouble.value.temporary
    link = HttpLink(url, "secret")
    with pytest.raises(LinkFault, match="cannot connect") as trouble:
        async with link.connect():
            raise AssertionError("connected to nobody")
    assert trouble.value.temporary
    await link.close()


async def test_lists_and_blocks_arrive_verified(campus: TestCampus) -> None:
    tree = a_tree({"a": b"one", "b": bytes(5_000_000)})
    campus.serve(tree)
    link = HttpLink(campus.url, "secret-of-a1")
    assert await link.fetch_tree(tree.digest) == tree.listing
    assert {name: data async for name, data in link.fetch_blocks(list(tree.blocks))} == tree.blocks
    campus.trees["e" * 64] = tree.listing
    with pytest.raises(LinkFault, match="other bytes") as trouble:
        await link.fetch_tree("e" * 64)
    assert not trouble.value.temporary
    campus.blocks["f" * 64] = b"not that"
    with pytest.raises(LinkFault, match="damaged"):
        await anext(link.fetch_blocks(["f" * 64]))
    with pytest.raises(LinkFault) as trouble:
        await link.fetch_tree("0" * 64)
    assert not trouble.value.temporary
    await link.close()


async def test_a_log_says_how_far_it_is(campus: TestCampus) -> None:
    link = HttpLink(campus.url, "secret-of-a1")
    assert await link.push_log("r1", 0, b"one") == 3
    assert await link.push_log("r1", 7, b"gap") == 3
    await link.close()


async def test_a_credential_nobody_knows_is_told_in_words(campus: TestCampus) -> None:
    link = HttpLink(campus.url, "stolen")
    with pytest.raises(LinkFault) as trouble:
        async with link.connect():
            raise AssertionError("let in with a stolen credential")
    assert not trouble.value.temporary
    assert "gpunion join" in str(trouble.value)
    await link.close()
