"""What listens on this machine's loopback for one person, and who is connected to it."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence

HERE, HERE_6 = "127.0.0.1", "::1"
ABSENT = (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.EADDRNOTAVAIL)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def loopback() -> tuple[str, ...]:
    """All that a name below `localhost` leads to. Browsers try ::1 first: who else of this machine's users
    listened there would be shown what is meant for us."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((HERE_6, 0))
    except OSError as error:
        if error.errno not in ABSENT:
            raise
        return (HERE,)
    return (HERE, HERE_6)


class Listening:
    def __init__(self, server: asyncio.Server, connected: set[asyncio.StreamWriter]) -> None:
        self._server = server
        self._connected = connected

    async def __aenter__(self) -> Listening:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Connections first: from Python 3.12 on a server waits for them, and browsers keep theirs open."""
        self._server.close()
        for writer in tuple(self._connected):
            writer.transport.abort()
        await self._server.wait_closed()


async def listen(serve: Serve, addresses: Sequence[str], port: int, *, limit: int) -> Listening:
    """At all of these addresses, or OSError: somebody has the port at one of them."""
    connected: set[asyncio.StreamWriter] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.add(writer)
        try:
            await serve(reader, writer)
        finally:
            connected.discard(writer)

    return Listening(await asyncio.start_server(one, addresses, port, limit=limit), connected)
