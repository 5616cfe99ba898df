"""Streams in a tunnel: all bytes in order, none waits for another, and a broken one says why."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.tunnel.messages import WINDOW_BYTES
from gpunion.tunnel.streams import Stream, StreamClosed, StreamRefused, Tunnel
from gpunion.tunnel.targets import BadTarget, Port, Socket, Target, Terminal, parse_place

LAB = Target(run_id="job-e1", place=Socket.LAB)


class Wire:
    """Both ends of a tunnel; what the far one accepts goes to `accept`."""

    def __init__(self, accept) -> None:
        self.near = Tunnel(self._to_far)
        self.far = Tunnel(self._to_near, lambda target, stream: accept(self.far, target, stream))
        self.cut = False

    async def _to_far(self, message: bytes) -> None:
        await asyncio.sleep(0)
        if self.cut:
            raise ConnectionError("cut")
        self.far.received(message)

    async def _to_near(self, message: bytes) -> None:
        await asyncio.sleep(0)
        if self.cut:
            raise ConnectionError("cut")
        self.near.received(message)


async def echoes(tunnel: Tunnel, target: Target, stream: Stream) -> None:
    del target
    await tunnel.opened(stream)
    while piece := await stream.read():
        await stream.write(piece)
    await stream.end()


async def all_of(stream: Stream) -> bytes:
    found = b""
    while piece := await stream.read():
        found += piece
    return found


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(1, 200_000), min_size=1, max_size=6), min_size=1, max_size=6))
def test_every_stream_brings_back_its_own_bytes_in_order(sizes: list[list[int]]) -> None:
    async def one(wire: Wire, number: int, pieces: list[int]) -> None:
        stream = await wire.near.open(LAB)
        sent = b"".join(bytes([(number * 7 + place) % 251]) * size for place, size in enumerate(pieces))

        async def send() -> None:
            start = 0
            for size in pieces:
                await stream.write(sent[start : start + size])
                start += size
            await stream.end()

        _, back = await asyncio.gather(send(), all_of(stream))
        assert back == sent
        wire.near.drop(stream)

    async def play() -> None:
        wire = Wire(echoes)
        await asyncio.gather(*(one(wire, number, pieces) for number, pieces in enumerate(sizes)))
        assert wire.near.streams == 0

    asyncio.run(play())


async def test_a_reader_that_reads_nothing_holds_nobody_but_its_own_writer() -> None:
    wire = Wire(echoes)
    slow, quick = await wire.near.open(LAB), await wire.near.open(LAB)
    writing = asyncio.create_task(slow.write(b"x" * (4 * WINDOW_BYTES)))
    await asyncio.sleep(0.05)
    await quick.write(b"hello")
    await quick.end()
    assert await all_of(quick) == b"hello"
    assert not writing.done()
    writing.cancel()


async def test_a_refusal_says_why_and_whether_to_come_again() -> None:
    async def refuse(tunnel: Tunnel, target: Target, stream: Stream) -> None:
        moving = target.place is Socket.LAB
        raise StreamRefused(f"{StreamRefused.MOVING if moving else ''}it is not there")

    wire = Wire(refuse)
    with pytest.raises(StreamRefused, match=r"^it is not there$") as of_lab:
        await wire.near.open(LAB)
    with pytest.raises(StreamRefused) as of_port:
        await wire.near.open(Target(run_id="job-e1", place=Port(6006)))
    assert (of_lab.value.moving, of_port.value.moving) == (True, False)


async def test_a_tunnel_that_is_cut_breaks_its_streams_and_lets_who_waits_come_again() -> None:
    async def never(tunnel: Tunnel, target: Target, stream: Stream) -> None:
        if target.place is Socket.FILES:
            await asyncio.Event().wait()
        await tunnel.opened(stream)
        await asyncio.Event().wait()

    wire = Wire(never)
    stream = await wire.near.open(LAB)
    opening = asyncio.create_task(wire.near.open(Target(run_id="job-e1", place=Socket.FILES)))
    await asyncio.sleep(0.02)
    wire.cut = True
    wire.near.close("the connection of its machine broke")
    with pytest.raises(StreamClosed, match="of its machine broke"):
        await stream.read()
    with pytest.raises(StreamRefused) as refused:
        await opening
    assert refused.value.moving
    with pytest.raises(StreamRefused):
        await wire.near.open(LAB)
    wire.far.close("cut")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("lab", Socket.LAB),
        ("ssh", Socket.SSH),
        ("port:1", Port(1)),
        ("port:65535", Port(65535)),
        ("terminal:24x80", Terminal(24, 80)),
    ],
)
def test_a_place_is_read_as_it_is_written(text: str, place: object) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lab.sock",
        "../lab",
        "port:0",
        "port:65536",
        "port:x3",
        "terminal:0x80",
        "terminal:24x99999",
        "x" * 99,
    ],
)
def test_anything_else_is_no_place(text: str) -> None:
    with pytest.raises(BadTarget, match="none of lab, ssh"):
        parse_place(text)
