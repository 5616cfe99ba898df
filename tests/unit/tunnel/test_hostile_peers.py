"""The machine at the other end of a tunnel says what it likes: it costs its own streams and little memory."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest

from gpunion.tunnel.messages import PIECE_BYTES, WINDOW_BYTES, BadMessage, Kind, pack, pack_credit
from gpunion.tunnel.streams import Stream, StreamRefused, Tunnel
from gpunion.tunnel.targets import Socket, Target

TARGET = Target(run_id="job-e1", place=Socket.LAB)


async def nowhere(message: bytes) -> None:
    del message


async def opened(tunnel: Tunnel) -> Stream:
    opening = asyncio.create_task(tunnel.open(TARGET))
    await asyncio.sleep(0)
    tunnel.received(pack(1, Kind.OPENED))
    return await opening


async def test_what_comes_right_behind_the_word_that_it_is_open_is_the_streams() -> None:
    """A server that speaks first, as one for a shell does: both arrive before anybody has had a turn."""
    tunnel = Tunnel(nowhere)
    opening = asyncio.create_task(tunnel.open(TARGET))
    await asyncio.sleep(0)
    tunnel.received(pack(1, Kind.OPENED))
    tunnel.received(pack(1, Kind.DATA, b"SSH-2.0"))
    tunnel.received(pack(1, Kind.END))
    stream = await opening
    assert [await stream.read(), await stream.read()] == [b"SSH-2.0", b""]


async def test_a_window_of_single_bytes_takes_no_more_memory_than_a_window() -> None:
    tunnel = Tunnel(nowhere)
    stream = await opened(tunnel)
    for _ in range(200_000):
        tunnel.received(pack(1, Kind.DATA, b"x"))
    kept = stream._arrived
    assert sys.getsizeof(kept) + sum(map(sys.getsizeof, kept)) < 400_000
    assert max(map(len, kept)) <= PIECE_BYTES
    tunnel.received(pack(1, Kind.END))
    assert len(b"".join([piece async for piece in pieces(stream)])) == 200_000


async def pieces(stream: Stream) -> AsyncIterator[bytes]:
    while piece := await stream.read():
        yield piece


@pytest.mark.parametrize(
    "message",
    [
        pack(1, Kind.DATA, b""),  # without end, and each would be kept
        pack(1, Kind.OPENED),
        pack(1, Kind.OPEN, b"{}"),
        pack(7, Kind.OPEN, b"{}"),
        pack(1, Kind.CREDIT, pack_credit(WINDOW_BYTES)),
        pack(1, Kind.CREDIT, b""),
        pack(1, Kind.DATA, b"x" * (PIECE_BYTES + 1)),
        b"",
        b"\x00\x00\x00\x01\x09",
    ],
)
async def test_what_no_honest_machine_says_closes_its_tunnel(message: bytes) -> None:
    tunnel = Tunnel(nowhere)
    await opened(tunnel)
    with pytest.raises(BadMessage):
        tunnel.received(message)


async def test_more_than_it_was_given_credit_for_closes_its_tunnel() -> None:
    tunnel = Tunnel(nowhere)
    await opened(tunnel)
    for _ in range(WINDOW_BYTES // PIECE_BYTES):
        tunnel.received(pack(1, Kind.DATA, b"x" * PIECE_BYTES))
    with pytest.raises(BadMessage):
        tunnel.received(pack(1, Kind.DATA, b"x"))


async def test_words_for_streams_that_nobody_opened_are_nobodys() -> None:
    tunnel = Tunnel(nowhere)
    stream = await opened(tunnel)
    for number in (0, 2, 2**32 - 1):
        for kind in (Kind.DATA, Kind.END, Kind.RESET, Kind.OPENED, Kind.CREDIT):
            tunnel.received(pack(number, kind, b"abcd"))
    assert (tunnel.streams, stream.closed) == (1, "")


async def test_an_answer_that_comes_when_nobody_waits_any_more_harms_nobody() -> None:
    tunnel = Tunnel(nowhere)
    other = asyncio.create_task(tunnel.open(TARGET))
    await asyncio.sleep(0)
    other.cancel()
    tunnel.received(pack(1, Kind.RESET, b"too late"))
    with pytest.raises(asyncio.CancelledError):
        await other
    tunnel.received(pack(1, Kind.OPENED))
    opening = asyncio.create_task(tunnel.open(TARGET))
    await asyncio.sleep(0)
    tunnel.received(pack(2, Kind.RESET, b"\x1b]52;c;bGll\x07 no"))
    with pytest.raises(StreamRefused) as refused:
        await opening
    assert str(refused.value).isprintable()
