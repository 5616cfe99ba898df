"""A stream whose other side is not heard any more breaks; one on which nobody says anything goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from gpunion.sdk.streams import ByteStream, StreamBroken

LIMIT_S = 20.0


class Peer:
    """What a stream leads to: it answers when asked whether it is there, or not, and says what it is told."""

    def __init__(self, *, answers: bool, says_after: int = 0) -> None:
        self.answers, self.says_after = answers, says_after
        self.asked = 0
        self.aborted = False
        self._said: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.transport = self

    def abort(self) -> None:
        self.aborted = True

    async def recv(self) -> bytes:
        return await asyncio.shield(self._said)

    async def ping(self) -> asyncio.Future[float]:
        self.asked += 1
        answer: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        if self.answers:
            answer.set_result(0.0)
        if self.asked == self.says_after:
            self._said.set_result(b"hello")
        return answer


async def read(peer: Peer) -> bytes:
    async with asyncio.timeout(LIMIT_S):
        return await ByteStream(peer, quiet_s=0.01).read()  # type: ignore[arg-type]


async def test_who_is_not_heard_any_more_is_given_up() -> None:
    peer = Peer(answers=False)
    with pytest.raises(StreamBroken, match="not heard"):
        await read(peer)
    assert peer.aborted


async def test_who_is_there_and_has_nothing_to_say_is_waited_for() -> None:
    peer = Peer(answers=True, says_after=4)
    assert await read(peer) == b"hello"
    assert not peer.aborted


async def test_who_says_something_instead_of_an_answer_is_there() -> None:
    peer = Peer(answers=False, says_after=1)
    assert await read(peer) == b"hello"
    assert not peer.aborted


@contextlib.asynccontextmanager
async def stream_to(handler: object, quiet_s: float) -> AsyncIterator[ByteStream]:
    async with serve(handler, "127.0.0.1", 0, ping_interval=None) as server:  # type: ignore[arg-type]
        (listening,) = server.sockets
        address = f"ws://127.0.0.1:{listening.getsockname()[1]}"
        async with connect(address, ping_interval=None, close_timeout=0.1, proxy=None) as connection:
            yield ByteStream(connection, quiet_s=quiet_s)


async def test_a_connection_that_swallows_all_breaks() -> None:
    done = asyncio.Event()

    async def deaf(connection: ServerConnection) -> None:
        connection.transport.pause_reading()
        await done.wait()
        connection.transport.abort()

    async with stream_to(deaf, 0.1) as stream, asyncio.timeout(LIMIT_S):
        assert stream.alive
        with pytest.raises(StreamBroken):
            await stream.read()
        assert not stream.alive
        with pytest.raises(StreamBroken):
            await stream.read()
        done.set()


async def test_what_comes_while_the_other_side_is_asked_is_read_in_its_order() -> None:
    class Talkative(Peer):
        pieces: asyncio.Queue[bytes] = asyncio.Queue()

        async def recv(self) -> bytes:
            return await self.pieces.get()

        async def ping(self) -> asyncio.Future[float]:
            for _ in range(2):
                self.asked += 1
                self.pieces.put_nowait(b"%d" % self.asked)
            return await super().ping()

    stream = ByteStream(Talkative(answers=True), quiet_s=0.01)  # type: ignore[arg-type]
    async with asyncio.timeout(LIMIT_S):
        got = [int(await stream.read()) for _ in range(9)]
    assert got == sorted(got)
    assert len(set(got)) == len(got)
