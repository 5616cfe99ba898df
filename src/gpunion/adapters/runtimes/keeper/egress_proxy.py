"""Connects one guest to the places its host's owner allows, and to no other.

It stands outside, as a user that owns nothing, and listens on the loopback of the guest's own network, which
has no other way out. It understands HTTP's CONNECT only, looks names up itself and connects to the very
address it has judged. The list is read anew for every connection from a descriptor its keeper opened, so an
owner's change counts at once. It ends with its keeper.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import socket
from collections.abc import Callable
from concurrent.futures.thread import ThreadPoolExecutor

from gpunion.domain.egress import Address, Place, may_reach, parse_place

CONNECTIONS_MAX = 256
REQUEST_MAX_BYTES = 8192
REQUEST_LIMIT_S = 10.0
CONNECT_LIMIT_S = 20.0
PIECE_BYTES = 64 * 1024
LIST_MAX_BYTES = 256 * 1024


class No(Exception):
    """Why the guest is not connected, with HTTP's number for it."""

    def __init__(self, status: str, words: str) -> None:
        super().__init__(words)
        self.status = status


def allowed_places(list_file: int) -> tuple[Place, ...]:
    """None where the list cannot be read: then nothing is allowed."""
    try:
        found = json.loads(os.pread(list_file, LIST_MAX_BYTES, 0))
        return tuple(parse_place(text) for text in found["allow"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()


def wanted(request: bytes) -> tuple[str, int]:
    line = request.partition(b"\r\n")[0].decode("ascii", errors="replace")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise No("400 Bad Request", "this is no request of HTTP/1")
    if words[0] != "CONNECT":
        raise No("405 Method Not Allowed", "only CONNECT is understood here: use https")
    host, _, port = words[1].rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise No("400 Bad Request", f"{words[1]!r} is no host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


class Doorman:
    def __init__(self, places: Callable[[], tuple[Place, ...]]) -> None:
        self._places = places
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._room:
            try:
                there = await self._connected(reader)
            except No as no:
                writer.write(f"HTTP/1.1 {no.status}\r\nConnection: close\r\n\r\ngpunion: {no}\n".encode())
                await _close(writer)
                return
            except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError):
                # All of what may come: not every Python hangs up where a task ends with an exception.
                await _close(writer)
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_carry(reader, there[1]), _carry(there[0], writer))
            await _close(there[1])
            await _close(writer)

    async def _connected(
        self, reader: asyncio.StreamReader
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(REQUEST_LIMIT_S):
            request = await reader.readuntil(b"\r\n\r\n")
        host, port = wanted(request)
        addresses = await _look_up(host, port)
        places = self._places()
        fit = [address for address in addresses if may_reach(places, host, address, port)]
        if not fit:
            raise No("403 Forbidden", f"the owner of this machine does not allow guests {host}:{port}")
        for address in fit:
            try:
                async with asyncio.timeout(CONNECT_LIMIT_S):
                    return await asyncio.open_connection(str(address), port)
            except (OSError, TimeoutError):
                continue
        raise No("502 Bad Gateway", f"{host}:{port} does not answer")


async def _look_up(host: str, port: int) -> list[Address]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        # The same words as for a place that is not allowed: a guest learns no names of the owner's network.
        raise No("403 Forbidden", f"the owner of this machine does not allow guests {host}:{port}") from None
    return [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found]


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(PIECE_BYTES):
            target.write(piece)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
    except OSError:
        target.close()  # one side is gone; the other hears of it


async def _close(writer: asyncio.StreamWriter) -> None:
    try:
        writer.close()
        await writer.wait_closed()
    except OSError:
        return


def prepare() -> None:
    """Load now what Python would load later: after this the process may be unable to read its own library."""
    "localhost".encode("idna")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(socket.getaddrinfo, "127.0.0.1", 1).result()


def stand(listener: int, list_file: int) -> None:
    """Until killed."""
    asyncio.run(_stand(socket.socket(fileno=listener), list_file))


async def _stand(listener: socket.socket, list_file: int) -> None:
    doorman = Doorman(lambda: allowed_places(list_file))
    server = await asyncio.start_server(doorman.serve, sock=listener, limit=REQUEST_MAX_BYTES)
    async with server:
        await server.serve_forever()
