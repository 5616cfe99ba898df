"""Carries a stream of a tunnel to a socket here and back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gpunion.tunnel.messages import PIECE_BYTES
from gpunion.tunnel.streams import Stream, StreamClosed

Pace = Callable[[int], Awaitable[None]]


async def at_once(size_bytes: int) -> None:
    """No limit on what is carried."""
    del size_bytes


async def carry(
    stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pace: Pace = at_once
) -> None:
    """Until both directions have ended, or one of the two sides breaks off; then the other hears of it.

    Also while whoever is at the socket reads nothing: a guest must not keep a stream from being closed."""
    both = [
        asyncio.create_task(_outward(stream, reader, pace)),
        asyncio.create_task(_inward(stream, writer, pace)),
    ]
    carrying = asyncio.gather(*both)
    breaking = asyncio.create_task(stream.broken())
    try:
        ends: list[asyncio.Future[Any]] = [carrying, breaking]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if carrying.done():
            await carrying
    except StreamClosed:
        return  # the other side said so
    except OSError as error:
        await _broken(stream, error)
    finally:
        for task in (*both, breaking):
            task.cancel()
        await asyncio.gather(*both, breaking, carrying, return_exceptions=True)
        if stream.closed:
            writer.transport.abort()  # what nobody reads is not waited for
        else:
            writer.close()


async def _outward(stream: Stream, reader: asyncio.StreamReader, pace: Pace) -> None:
    while piece := await reader.read(PIECE_BYTES):
        await pace(len(piece))
        await stream.write(piece)
    await stream.end()


async def _inward(stream: Stream, writer: asyncio.StreamWriter, pace: Pace) -> None:
    while piece := await stream.read():
        await pace(len(piece))
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _broken(stream: Stream, error: OSError) -> None:
    try:
        await stream.reset(str(error.strerror or error) or type(error).__name__)
    except OSError:
        return  # the tunnel is gone as well
