"""Who opens a session asks first whether it is served on this machine already."""

from __future__ import annotations

import asyncio

import pytest

from gpunion.cli.sessions.origin import Site
from gpunion.cli.sessions.serving import served_already

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


async def asked(*pieces: bytes) -> bool:
    """What is concluded from an answer that comes in these pieces, each with a pause after it."""

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
        writer.close()

    server = await asyncio.start_server(answers, "127.0.0.1", 0)
    async with server:
        return await served_already(Site(name="course", port=server.sockets[0].getsockname()[1]))


@pytest.mark.parametrize(
    ("pieces", "is_served"),
    [
        ((HEAD + b'{"name": "course"}',), True),
        ((HEAD, b'{"name": ', b'"course"}'), True),
        ((HEAD, b'{"name": "other"}'), False),
        ((b"HTTP/1.1 404 Not Found\r\n\r\n", b'{"name": "course"}'), False),
        ((b"",), False),
    ],
)
def test_an_answer_counts_however_it_is_cut(pieces: tuple[bytes, ...], is_served: bool) -> None:
    assert asyncio.run(asked(*pieces)) == is_served


def test_a_port_where_nobody_listens_serves_nothing() -> None:
    async def nobody() -> bool:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return await served_already(Site(name="course", port=port))

    assert not asyncio.run(nobody())
