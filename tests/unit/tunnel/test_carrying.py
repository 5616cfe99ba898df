"""A stream is carried to a socket and back, and given up when it is broken, whoever reads nothing."""

from __future__ import annotations

import asyncio
import socket

from gpunion.tunnel.carrying import carry
from gpunion.tunnel.messages import PIECE_BYTES, WINDOW_BYTES, Kind
from gpunion.tunnel.streams import Stream


async def nowhere(message: bytes) -> None:
    del message


async def test_a_stream_that_is_broken_is_let_go_also_where_the_guest_reads_nothing() -> None:
    here, guests = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with guests:
        reader, writer = await asyncio.open_unix_connection(sock=here)
        writer.transport.set_write_buffer_limits(4096)
        stream = Stream(1, nowhere)
        for _ in range(WINDOW_BYTES // PIECE_BYTES):
            stream.took(Kind.DATA, bytes(PIECE_BYTES))
        carrying = asyncio.create_task(carry(stream, reader, writer))
        async with asyncio.timeout(20):
            while not writer.transport.get_write_buffer_size():
                await asyncio.sleep(0)
            await stream.reset("the session moves")
            await carrying
        guests.settimeout(20)
        while guests.recv(PIECE_BYTES):  # and it hears that nobody is there any more
            pass
