"""What listens on this machine's loopback for one person, and who is connected to it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

HERE, HERE_6 = "127.0.0.1", "::1"
ABSENT = (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.EADDRNOTAVAIL)

# One line for each socket: whose it is among them. Columns of a line, by proc_pid_net(5).
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LOCAL, REMOTE, OWNER, INODE = 1, 2, 7, 9
ROOT = 0

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


async def listen(
    serve: Serve,
    addresses: Sequence[str],
    port: int,
    *,
    limit: int,
    is_welcome: Callable[[socket.socket], bool] | None = None,
) -> Listening:
    """At all of these addresses, or OSError: somebody has the port at one of them. Connections of other users
    of this machine are hung up on."""
    welcomes = is_welcome or of_this_user
    connected: set[asyncio.StreamWriter] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.add(writer)
        try:
            if await asyncio.to_thread(welcomes, writer.get_extra_info("socket")):
                await serve(reader, writer)
            else:
                writer.transport.abort()
        finally:
            connected.discard(writer)

    return Listening(await asyncio.start_server(one, addresses, port, limit=limit), connected)


def of_this_user(connection: socket.socket) -> bool:
    """Whether the other end is this user's, or root's, who may do everything anyway."""
    with contextlib.suppress(OSError):  # it is gone already, or this system does not tell
        here, peer = connection.getsockname(), connection.getpeername()
        lines = [line for table in TABLES if table.exists() for line in table.read_text().splitlines()]
        return not lines or owner_of(lines, peer, here) in (os.getuid(), ROOT)
    return False


def owner_of(lines: Iterable[str], local: Sequence[object], remote: Sequence[object]) -> int | None:
    """Of the socket with these two ends. None where there is none, and where its program has let go of it
    already: then it is nobody's, and the kernel says 0."""
    ends = {_ends(local[:2], remote[:2], mapped=mapped) for mapped in (False, True)}
    for line in lines:
        words = line.split()
        if len(words) > INODE and (words[LOCAL], words[REMOTE]) in ends:
            return int(words[OWNER]) if words[INODE] != "0" else None
    return None


def _ends(*ends: Sequence[object], mapped: bool) -> tuple[str, ...]:
    return tuple(_as_the_kernel_writes(str(address), int(str(port)), mapped) for address, port in ends)


def _as_the_kernel_writes(address: str, port: int, mapped: bool) -> str:
    """`mapped`: an address of the older kind, as a socket of the newer kind has it."""
    if ":" in address:
        packed = socket.inet_pton(socket.AF_INET6, address)
    else:
        packed = (bytes(10) + b"\xff\xff" if mapped else b"") + socket.inet_pton(socket.AF_INET, address)
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"
