"""One request of a browser's, led to a session's server and its answer back; again where the session moved
before it had answered, if that can do no harm."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import h11

from gpunion.cli.sessions.http_ends import BadPeer, HttpEnd
from gpunion.sdk.streams import ByteStream, StreamBroken

# Asking twice for these is as good as once.
REPEATABLE = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")
# JupyterLab sends a large file in pieces, each a PUT of an object with this in it, and its server appends
# them. Inside of a text its quotes would be written otherwise.
APPENDS = b'"chunk"'
# A notebook that is being saved; what is larger is sent once, and its sender told if that failed.
KEPT_BODY_MAX_BYTES = 32 * 1024**2
TRIES = 3
# From here on taking an answer apart costs more than another connection.
LARGE_BYTES = 4 * 1024**2
# They hold between two neighbours; each side has its own here.
OF_ONE_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)

# A guest's word about what its pages may do here. What a browser kept would run in the next session of that
# name, and asking that one whether it is the same is no help: the first one has chosen what is asked.
NOT_PASSED_ON = (b"service-worker-allowed", b"cache-control", b"expires", b"pragma")
NOT_KEPT = (b"cache-control", b"no-store")

Open = Callable[[], Awaitable[ByteStream]]


class NotAnswered(Exception):
    """The session moved in the middle, and nobody knows how much of it was done."""


@dataclass(slots=True)
class _There:
    stream: ByteStream
    end: HttpEnd


class SessionServer:
    """A session's own server, as one browser's connection meets it."""

    def __init__(self, open_stream: Open) -> None:
        self._open_stream = open_stream
        self._there: _There | None = None

    async def close(self) -> None:
        there, self._there = self._there, None
        if there is not None:
            await there.stream.close()

    async def exchange(self, browser: HttpEnd, request: Any) -> bool:
        """False: nothing more can follow on this connection."""
        if _upgrades(request):
            return await self._switch(browser, request)
        repeatable = request.method.decode() in REPEATABLE and _is_small(request)
        body = await _kept_body(browser) if repeatable else None
        repeatable = repeatable and APPENDS not in (body or b"")
        for left in reversed(range(TRIES)):
            try:
                answer = await self._ask(browser, request, body)
                break
            except (StreamBroken, BadPeer) as trouble:
                await self.close()
                if not repeatable or not left or isinstance(trouble, BadPeer):
                    raise NotAnswered(str(trouble)) from trouble
        if (length := _large(request, answer)) is not None:
            return await self._pass_on(browser, answer, length)
        return await self._answer(browser, answer)

    async def _pass_on(self, browser: HttpEnd, answer: Any, left_bytes: int) -> bool:
        """A download: its length is known and its bytes are nobody's but its reader's, so they are not taken
        apart. The connection ends with it."""
        assert self._there is not None
        there = self._there
        await browser.send(_answered(answer, (b"connection", b"close")))
        piece = there.end.rest()
        with contextlib.suppress(StreamBroken):  # the browser has half of it, and sees that it is half
            while left_bytes:
                piece = (piece or await there.stream.read())[:left_bytes]
                if not piece:
                    break
                await browser.raw_write(piece)
                left_bytes -= len(piece)
                piece = b""
        return False

    async def _ask(self, browser: HttpEnd, request: Any, body: bytes | None) -> Any:
        there = await self._connected()
        await there.end.send(_forwarded(request, body))
        sending = asyncio.create_task(_send_body(browser, there.end, body))
        answering = asyncio.create_task(_answer_head(there.end))
        try:
            await asyncio.wait([sending, answering], return_when=asyncio.FIRST_EXCEPTION)
            if sending.done():
                sending.result()
            return answering.result()
        except h11.LocalProtocolError as error:
            raise BadPeer(f"the request is not what it says of itself: {error}") from error
        finally:
            for task in (sending, answering):
                task.cancel()
            await asyncio.gather(sending, answering, return_exceptions=True)

    async def _connected(self) -> _There:
        there = self._there
        if there is not None and there.stream.alive and there.end.reusable:
            there.end.begin_anew()
            return there
        await self.close()
        stream = await self._open_stream()
        self._there = there = _There(stream, HttpEnd(h11.CLIENT, stream.read, stream.write))
        return there

    async def _answer(self, browser: HttpEnd, answer: Any) -> bool:
        assert self._there is not None
        there = self._there
        await browser.send(_answered(answer))
        try:
            async for piece in there.end.body():
                await browser.send(h11.Data(data=piece))
        except (StreamBroken, BadPeer):
            return False  # the browser has half of it, and sees that it is half
        await browser.send(h11.EndOfMessage())
        return browser.reusable

    async def _switch(self, browser: HttpEnd, request: Any) -> bool:
        """A WebSocket: after the handshake nothing of it is looked at."""
        await self.close()
        stream = await self._open_stream()
        self._there = there = _There(stream, HttpEnd(h11.CLIENT, stream.read, stream.write))
        await there.end.send(_forwarded(request, b"", upgrade=True))
        await there.end.send(h11.EndOfMessage())
        try:
            answer = await there.end.next()
        except (StreamBroken, BadPeer) as trouble:
            raise NotAnswered(str(trouble)) from trouble
        if not isinstance(answer, h11.InformationalResponse) or answer.status_code != 101:
            if isinstance(answer, h11.Response):
                return await self._answer(browser, answer)
            raise NotAnswered("its server does not answer a WebSocket")
        await browser.send(h11.InformationalResponse(status_code=101, headers=list(answer.headers)))
        await _join(browser, there)
        return False


async def _join(browser: HttpEnd, there: _There) -> None:
    """What came right behind the handshake first, then all that comes, until one side is done."""
    if rest := there.end.rest():
        await browser.raw_write(rest)
    if rest := browser.rest():
        await there.stream.write(rest)

    async def up() -> None:
        while piece := await browser.raw_read():
            await there.stream.write(piece)

    async def down() -> None:
        while piece := await there.stream.read():
            await browser.raw_write(piece)

    both = [asyncio.create_task(up()), asyncio.create_task(down())]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


def _upgrades(request: Any) -> bool:
    return any(name == b"upgrade" and value.lower() == b"websocket" for name, value in request.headers)


def _is_small(request: Any) -> bool:
    """Whether its body is kept while it is sent: a notebook of more than that is sent all the same, once."""
    sizes = [value for name, value in request.headers if name == b"content-length"]
    chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
    return not chunked and all(int(size) <= KEPT_BODY_MAX_BYTES for size in sizes)


async def _kept_body(browser: HttpEnd) -> bytes:
    return b"".join([piece async for piece in browser.body()])


async def _send_body(browser: HttpEnd, there: HttpEnd, body: bytes | None) -> None:
    if body is not None:
        if body:
            await there.send(h11.Data(data=body))
    else:
        async for piece in browser.body():
            await there.send(h11.Data(data=piece))
    await there.send(h11.EndOfMessage())


async def _answer_head(there: HttpEnd) -> Any:
    while True:
        event = await there.next()
        if isinstance(event, h11.Response):
            return event
        if not isinstance(event, h11.InformationalResponse):
            raise StreamBroken("its server hung up")


def _forwarded(request: Any, body: bytes | None, *, upgrade: bool = False) -> Any:
    kept = [(name, value) for name, value in request.headers if name not in OF_ONE_HOP and name != b"expect"]
    if upgrade:
        kept += [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    elif body is not None:
        kept = [(name, value) for name, value in kept if name != b"content-length"]
        kept += [(b"content-length", str(len(body)).encode())] if body else []
    elif any(name == b"transfer-encoding" for name, _ in request.headers):
        kept = [(name, value) for name, value in kept if name != b"content-length"]
        kept.append((b"transfer-encoding", b"chunked"))
    return h11.Request(method=request.method, target=request.target, headers=kept)


def _large(request: Any, answer: Any) -> int | None:
    """How long its body is, where that is much."""
    sizes = [value for name, value in answer.headers if name == b"content-length"]
    if request.method == b"HEAD" or answer.status_code != 200 or len(sizes) != 1:
        return None
    return size if (size := int(sizes[0])) >= LARGE_BYTES else None


def _answered(answer: Any, *more: tuple[bytes, bytes]) -> Any:
    kept = [(name, value) for name, value in answer.headers if name not in (*OF_ONE_HOP, *NOT_PASSED_ON)]
    return h11.Response(
        status_code=answer.status_code, headers=[*kept, NOT_KEPT, *more], reason=answer.reason
    )
