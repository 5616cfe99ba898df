"""What listens on the loopback has all of it, and ends whoever is still connected."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys

import pytest

from gpunion.cli.sessions.listening import (
    HERE,
    HERE_6,
    Listening,
    listen,
    loopback,
    of_this_user,
    owner_of,
)

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


async def test_who_is_not_welcome_is_hung_up_on_before_a_word() -> None:
    port = free_port()
    async with await listen(says_hello, (HERE,), port, limit=LIMIT, is_welcome=lambda connection: False):
        reader, writer = await asyncio.open_connection(HERE, port)
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4E21 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 100 1 0
   1: 0100007F:C001 0100007F:4E21 01 00000000:00000000 00:00000000 00000000  1000        0 101 1 0
   2: 0100007F:C002 0100007F:4E21 01 00000000:00000000 00:00000000 00000000  1001        0 102 1 0
   3: 0100007F:C003 0100007F:4E21 04 00000000:00000000 00:00000000 00000000     0        0 0 1 0
   4: 0000000000000000FFFF00000100007F:C004 0000000000000000FFFF00000100007F:4E21 01 0:0 0:0 0 1001 0 104 1
   5: 00000000000000000000000001000000:C005 00000000000000000000000001000000:4E21 01 0:0 0:0 0 1000 0 105 1
   6: 0100007F:C001 0100007F:4E22 01 00000000:00000000 00:00000000 00000000  1001        0 106 1 0
"""


@pytest.mark.skipif(sys.byteorder == "big", reason="the table is of a machine with the other order of bytes")
@pytest.mark.parametrize(
    ("address", "port", "owner"),
    [
        (HERE, 0xC001, 1000),
        (HERE, 0xC002, 1001),
        (HERE, 0xC003, None),  # it has sent something and let go: the kernel does not know whose it was
        (HERE, 0xC004, 1001),
        (HERE_6, 0xC005, 1000),
        (HERE, 0xC009, None),
    ],
)
def test_the_kernel_tells_whose_a_connection_is(address: str, port: int, owner: int | None) -> None:
    assert owner_of(TABLE.splitlines(), (address, port, 0, 0), (address, 0x4E21, 0, 0)) == owner


async def test_a_program_of_this_user_is_one() -> None:
    seen: list[bool] = []

    def looks(connection: socket.socket) -> bool:
        seen.append(of_this_user(connection))
        return True

    port = free_port()
    async with await listen(says_hello, loopback(), port, limit=LIMIT, is_welcome=looks):
        for address in loopback():
            reader, writer = await asyncio.open_connection(address, port)
            assert await reader.readexactly(5) == b"hello"
            writer.close()
    assert seen == [True] * len(loopback())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize(("user", "hears"), [(0, b"hello"), (65_534, b"")])
@pytest.mark.parametrize("address", loopback())
async def test_a_program_of_another_user_is_hung_up_on(address: str, user: int, hears: bytes) -> None:
    port = free_port()
    async with await listen(says_hello, loopback(), port, limit=LIMIT):
        words = ["bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}; head -c 5 <&3"]
        asked = await asyncio.to_thread(
            subprocess.run, words, user=user, group=user, extra_groups=(), cwd="/", stdout=subprocess.PIPE
        )
    assert asked.stdout == hears
