"""What listens on the loopback has all of it, and ends whoever is still connected."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from gpunion.cli.sessions.listening import HERE, HERE_6, Listening, listen, loopback

LIMIT = 1 << 16


async def says_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    with contextlib.suppress(OSError):
        await reader.read()
    writer.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(HERE_6 not in loopback(), reason="this machine has no ::1")
async def test_a_browser_that_tries_the_newer_address_first_meets_the_same_one() -> None:
    port = free_port()
    async with await listen(says_hello, loopback(), port, limit=LIMIT):
        for address in (HERE, HERE_6):
            reader, writer = await asyncio.open_connection(address, port)
            assert await reader.readexactly(5) == b"hello"
            writer.close()


@pytest.mark.parametrize("address", loopback())
async def test_a_port_that_somebody_has_at_one_address_is_taken(address: str) -> None:
    async with await listen(says_hello, (address,), port := free_port(), limit=LIMIT):
        with pytest.raises(OSError):
            await listen(says_hello, loopback(), port, limit=LIMIT)


async def test_who_is_connected_is_hung_up_on_at_the_end() -> None:
    listening = await listen(says_hello, (HERE,), port := free_port(), limit=LIMIT)
    reader, writer = await asyncio.open_connection(HERE, port)
    assert await reader.readexactly(5) == b"hello"
    async with asyncio.timeout(20):
        await listening.close()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()


async def test_the_end_is_not_waited_for_before_connections_are_closed() -> None:
    """Servers of Python 3.12 and newer wait for every connection, and browsers keep theirs."""
    happened: list[str] = []

    class Transport:
        def abort(self) -> None:
            happened.append("hung up")

    class Writer:
        transport = Transport()

    class Server:
        def close(self) -> None:
            happened.append("closed")

        async def wait_closed(self) -> None:
            happened.append("waited")

    await Listening(Server(), {Writer()}).close()  # type: ignore[arg-type]
    assert happened == ["closed", "hung up", "waited"]
