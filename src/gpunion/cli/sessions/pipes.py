"""A stream to a session as this process's own input and output, and as a port of this machine."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

from gpunion.cli.sessions.listening import HERE, Listening
from gpunion.cli.sessions.listening import listen as listen_at
from gpunion.sdk.streams import PIECE_BYTES, ByteStream, StreamBroken

Open = Callable[[], Awaitable[ByteStream]]


async def as_stdio(stream: ByteStream) -> None:
    """Until the other side has ended. StreamBroken: it broke off."""
    up = asyncio.create_task(_from_stdin(stream))
    try:
        while piece := await stream.read():
            await asyncio.to_thread(_write_all, piece)
    finally:
        up.cancel()
        await asyncio.gather(up, return_exceptions=True)
        await stream.close()


async def _from_stdin(stream: ByteStream) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while piece := await reader.read(PIECE_BYTES):
        await stream.write(piece)
    await stream.end()


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


async def listen(port: int, open_stream: Open, trouble: Callable[[str], None]) -> Listening:
    """Each connection to it is a stream of its own. OSError: the port is taken."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stream = await open_stream()
        except Exception as why:  # whoever connected sees it closed; the user is told why
            trouble(str(why))
            writer.close()
            return
        try:
            await _join(stream, reader, writer)
        except asyncio.CancelledError:
            return  # its user has had enough
        finally:
            writer.close()
            await stream.close()

    return await listen_at(serve, (HERE,), port, limit=PIECE_BYTES)


async def _join(stream: ByteStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def up() -> None:
        while piece := await reader.read(PIECE_BYTES):
            await stream.write(piece)
        await stream.end()

    async def down() -> None:
        while piece := await stream.read():
            writer.write(piece)
            await writer.drain()
        writer.write_eof()

    both = [asyncio.create_task(up()), asyncio.create_task(down())]
    try:
        await asyncio.gather(*both)
    except (OSError, StreamBroken):
        return
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
