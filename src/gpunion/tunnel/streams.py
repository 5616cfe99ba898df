"""Many streams over one connection, each with its own credit, so that a slow one does not hold up the others.

One side opens streams (the coordinator), the other accepts them (an agent). Whoever has the connection gives
each message that arrives to `received`, which never waits, and calls `close` at its end. A peer that sends
more than it may, or what is no message, is answered with BadMessage: close the connection then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from gpunion.tunnel.messages import (
    PIECE_BYTES,
    STREAM_ID_MAX,
    WINDOW_BYTES,
    BadMessage,
    Kind,
    pack,
    pack_credit,
    pack_why,
    unpack,
    unpack_credit,
    unpack_why,
)
from gpunion.tunnel.targets import BadTarget, Target, pack_target, unpack_target

# Of one tunnel: a machine's sessions have dozens of connections each.
STREAMS_MAX = 1024
# A socket of a machine under load answers well within; then whoever waits is told.
OPEN_LIMIT_S = 20.0

Send = Callable[[bytes], Awaitable[None]]


class StreamClosed(ConnectionError):
    """The stream is over before its end, with the reason."""


class StreamRefused(StreamClosed):
    """It was never opened. `moving`: the guest stands still for a save or a move; ask again in a moment."""

    MOVING = "moving: "

    def __init__(self, why: str) -> None:
        self.moving = why.startswith(self.MOVING)
        super().__init__(why.removeprefix(self.MOVING))


class Stream:
    """One of them, as its user sees it: read until nothing comes, write, end, or reset."""

    def __init__(self, stream_id: int, send: Send) -> None:
        self.id = stream_id
        self._send = send
        self._credit = WINDOW_BYTES  # what may still be sent
        self._more_credit = asyncio.Event()
        self._arrived: deque[bytes] = deque()
        self._allowed = WINDOW_BYTES  # what the peer may still send
        self._owed = 0  # passed on and not yet given back
        self._something = asyncio.Event()
        self._ended_there = self._ended_here = False
        self._broken = asyncio.Event()
        self.closed = ""  # why, once it is over before its end

    async def read(self) -> bytes:
        """What came next; nothing at its end. StreamClosed when it broke."""
        while not self._arrived:
            if self.closed:
                raise StreamClosed(self.closed)
            if self._ended_there:
                return b""
            self._something.clear()
            await self._something.wait()
        piece = self._arrived.popleft()
        self._owed += len(piece)
        if self._owed >= WINDOW_BYTES // 4 and not self.closed:
            owed, self._owed = self._owed, 0
            self._allowed += owed
            await self._send(pack(self.id, Kind.CREDIT, pack_credit(owed)))
        return piece

    async def write(self, data: bytes) -> None:
        """Returns when all of it is on its way, which waits for the reader on the other side."""
        view = memoryview(data)
        while view:
            while self._credit <= 0 and not self.closed:
                self._more_credit.clear()
                await self._more_credit.wait()
            if self.closed:
                raise StreamClosed(self.closed)
            piece = view[: min(PIECE_BYTES, self._credit)]
            self._credit -= len(piece)
            await self._send(pack(self.id, Kind.DATA, bytes(piece)))
            view = view[len(piece) :]

    async def end(self) -> None:
        if not self._ended_here and not self.closed:
            self._ended_here = True
            await self._send(pack(self.id, Kind.END))

    async def reset(self, why: str) -> None:
        if not self.over:
            self.broke(why)
            await self._send(pack(self.id, Kind.RESET, pack_why(why)))

    @property
    def over(self) -> bool:
        return bool(self.closed) or (self._ended_here and self._ended_there and not self._arrived)

    async def broken(self) -> None:
        """Waits until it is over before its end."""
        await self._broken.wait()

    # --- what the connection brings ---

    def took(self, kind: Kind, body: bytes) -> None:
        if self.closed:
            return  # it was on its way when this side broke off
        match kind:
            case Kind.DATA:
                self._allowed -= len(body)
                if self._allowed < 0 or self._ended_there:
                    raise BadMessage("it sent more than it was given credit for")
                self._keep(body)
            case Kind.END:
                self._ended_there = True
                self._something.set()
            case Kind.RESET:
                self.broke(unpack_why(body))
            case Kind.CREDIT:
                self._credit += unpack_credit(body)
                if self._credit > WINDOW_BYTES:
                    raise BadMessage("it gave back more than was sent")
                self._more_credit.set()
            case _:
                raise BadMessage(f"{kind.name} has no place in a stream that is open")

    def _keep(self, body: bytes) -> None:
        """Small pieces together: a megabyte of single bytes would take a hundred of memory."""
        if not body:
            raise BadMessage("a piece has no bytes")
        if self._arrived and len(self._arrived[-1]) + len(body) <= PIECE_BYTES:
            self._arrived[-1] += body
        else:
            self._arrived.append(body)
        self._something.set()

    def broke(self, why: str) -> None:
        self.closed = self.closed or why
        self._arrived.clear()
        self._broken.set()
        self._something.set()
        self._more_credit.set()


Accept = Callable[[Target, Stream], Coroutine[Any, Any, None]]


class Tunnel:
    """Both sides of it. `accept` is a task for each stream that the other side opens: it calls `opened`, then
    carries the stream; StreamRefused from it, or BadTarget, says why not."""

    def __init__(self, send: Send, accept: Accept | None = None) -> None:
        self._send = send
        self._accept = accept
        self._last_id = 0
        self._streams: dict[int, Stream] = {}
        self._opening: dict[int, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = ""

    @property
    def streams(self) -> int:
        return len(self._streams)

    async def open(self, target: Target) -> Stream:
        """StreamRefused says why there is none."""
        if self._over:
            raise StreamRefused(StreamRefused.MOVING + self._over)
        if len(self._streams) >= STREAMS_MAX or self._last_id >= STREAM_ID_MAX:
            raise StreamRefused(f"its machine has {STREAMS_MAX} streams open already")
        self._last_id += 1
        stream = self._streams[self._last_id] = Stream(self._last_id, self._send)
        answer = self._opening[stream.id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                await self._send(pack(stream.id, Kind.OPEN, pack_target(target)))
                await answer
        except TimeoutError:
            await self._reset(stream, "it took too long to open")
            raise StreamRefused(f"nothing answered within {OPEN_LIMIT_S:.0f} s") from None
        except asyncio.CancelledError:
            await self._reset(stream, "nobody waits for it any more")
            raise
        except StreamRefused:
            self._streams.pop(stream.id, None)
            raise
        finally:
            self._opening.pop(stream.id, None)
        return stream

    async def opened(self, stream: Stream) -> None:
        await self._send(pack(stream.id, Kind.OPENED))

    def drop(self, stream: Stream) -> None:
        """Its user is done with it."""
        self._streams.pop(stream.id, None)

    async def _reset(self, stream: Stream, why: str) -> None:
        self._streams.pop(stream.id, None)
        if not self._over:
            await stream.reset(why)

    def received(self, message: bytes) -> None:
        stream_id, kind, body = unpack(message)
        stream = self._streams.get(stream_id)
        if kind is Kind.OPEN:
            self._asked(stream_id, body)
        elif stream is None:
            return  # of one that was dropped here while this was on its way
        elif stream_id in self._opening:
            self._answered(stream_id, kind, body)
        else:
            stream.took(kind, body)

    def _answered(self, stream_id: int, kind: Kind, body: bytes) -> None:
        """What comes right behind it is the stream's, also before whoever opened it has heard."""
        if kind not in (Kind.OPENED, Kind.RESET):
            raise BadMessage(f"{kind.name} came before the stream was opened")
        answer = self._opening.pop(stream_id)
        if answer.done():
            return  # nobody waits for it any more
        if kind is Kind.OPENED:
            answer.set_result(None)
        else:
            answer.set_exception(StreamRefused(unpack_why(body)))

    def _asked(self, stream_id: int, body: bytes) -> None:
        if self._accept is None or stream_id <= self._last_id:
            raise BadMessage("it opens a stream that is not its to open")
        self._last_id = stream_id
        stream = self._streams[stream_id] = Stream(stream_id, self._send)
        task = asyncio.get_running_loop().create_task(self._carry(self._accept, stream, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, accept: Accept, stream: Stream, body: bytes) -> None:
        try:
            if len(self._streams) > STREAMS_MAX:
                raise StreamRefused(f"this machine has {STREAMS_MAX} streams open already")
            await accept(unpack_target(body), stream)
        except (OSError, BadTarget) as why:
            words = str(why) or type(why).__name__
            prefix = StreamRefused.MOVING if isinstance(why, StreamRefused) and why.moving else ""
            await self._tell(stream, prefix + words)
        finally:
            self._streams.pop(stream.id, None)

    async def _tell(self, stream: Stream, why: str) -> None:
        if not self._over:
            try:
                await stream.reset(why)
            except OSError:
                return  # the connection is gone, and everybody hears of that

    def close(self, why: str) -> None:
        """The connection is gone: everything on it is over."""
        self._over = self._over or why
        for answer in self._opening.values():
            if not answer.done():
                answer.set_exception(StreamRefused(StreamRefused.MOVING + why))
        for stream in list(self._streams.values()):
            stream.broke(why)
        for task in self._tasks:
            task.cancel()
