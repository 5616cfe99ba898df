"""A session at http://NAME.localhost:PORT on its user's own machine.

It carries what a browser says to the session's own server, with the user's token for the coordinator, which
no page ever sees. That server's own token and its check of changes stay as they are. A host name of its own
keeps a session's pages away from everything else a browser knows, the coordinator among it.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
from collections.abc import Awaitable, Callable
from typing import Any

import h11

from gpunion.cli.sessions.exchange import NotAnswered, SessionServer
from gpunion.cli.sessions.http_ends import READ_BYTES, BadPeer, HttpEnd, header
from gpunion.cli.sessions.listening import Listening, listen, loopback
from gpunion.cli.sessions.origin import Refusal, Site
from gpunion.sdk.errors import ApiProblem, ClientError
from gpunion.sdk.streams import ByteStream

CONNECTIONS_MAX = 512
HEAD_LIMIT_S = 10.0
LINGER_S, LINGER_READS = 1.0, 64
OWN_PREFIX = "/.gpunion/"
SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

STYLE = "body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:20vh auto;padding:0 1rem}"

Own = Callable[[str, Any], Awaitable["Page | None"]]


class Page:
    """What is answered here, and not by the session."""

    def __init__(
        self, status: int, kind: str, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        self.status, self.kind, self.body, self.headers = status, kind, body, headers


class Forwarder:
    def __init__(
        self,
        site: Site,
        open_stream: Callable[[], Awaitable[ByteStream]],
        own: Own,
        *,
        connections_max: int = CONNECTIONS_MAX,
        head_limit_s: float = HEAD_LIMIT_S,
    ) -> None:
        """`own`: the pages below OWN_PREFIX, by name and request."""
        self.site = site
        self._open_stream = open_stream
        self._own = own
        self._connections_max = connections_max
        self._head_limit_s = head_limit_s
        self._serving = 0
        # Who has asked for nothing, or not to its end: the oldest first.
        self._silent: dict[asyncio.StreamWriter, None] = {}

    async def listen(self) -> Listening:
        """OSError: the port is taken."""
        return await listen(self._serve, loopback(), self.site.port, limit=READ_BYTES)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_room = self._serving < self._connections_max or self._sent_away()
        self._serving += 1
        server = SessionServer(self._open_stream)
        try:
            if not has_room:
                return
            browser = HttpEnd(h11.SERVER, lambda: reader.read(READ_BYTES), _writing(writer))
            limit_s: float | None = self._head_limit_s
            while await self._one(browser, server, writer, limit_s):
                browser.begin_anew()
                limit_s = None  # a browser keeps what it has used, for as long as there is room
        except (OSError, h11.LocalProtocolError, asyncio.CancelledError):
            return
        finally:
            self._serving -= 1
            self._silent.pop(writer, None)
            await server.close()
            await _hang_up(reader, writer)

    def _sent_away(self) -> bool:
        """Every user of this machine can connect, and must not keep its owner out by saying nothing."""
        oldest = next(iter(self._silent), None)
        if oldest is None:
            return False
        del self._silent[oldest]
        oldest.transport.abort()
        return True

    async def _head(self, browser: HttpEnd, writer: asyncio.StreamWriter, limit_s: float | None) -> Any:
        self._silent[writer] = None
        async with asyncio.timeout(limit_s):
            request = await browser.next()
        self._silent.pop(writer, None)
        return request

    async def _one(
        self, browser: HttpEnd, server: SessionServer, writer: asyncio.StreamWriter, limit_s: float | None
    ) -> bool:
        """One request. False: it was the last."""
        try:
            request = await self._head(browser, writer, limit_s)
            if not isinstance(request, h11.Request):
                return False
            refusal = self.site.refuses(request)
            if refusal is not None:
                return await _say(browser, request, _refused(refusal))
            path = request.target.decode("latin-1")
            if path.startswith(OWN_PREFIX) or path.split("?")[0] == OWN_PREFIX.rstrip("/"):
                return await self._answer_here(browser, request, path)
            return await server.exchange(browser, request)
        except BadPeer as bad:
            return await _say(browser, None, _refused(Refusal(bad.status, str(bad))))
        except NotAnswered as trouble:
            return await _say(browser, request, _away(request, f"it moved in the middle of this ({trouble})"))
        except ClientError as trouble:
            return await _say(browser, request, _why_not(request, trouble))

    async def _answer_here(self, browser: HttpEnd, request: Any, path: str) -> bool:
        if request.method not in (b"GET", b"HEAD"):
            return await _say(browser, request, _refused(Refusal(405, "these pages are read only")))
        page = await self._own(path.split("?")[0].removeprefix(OWN_PREFIX.rstrip("/")).lstrip("/"), request)
        return await _say(browser, request, page or _refused(Refusal(404, "there is no such page")))


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Who is still sending reads our answer only if what they send is taken for a moment."""
    with contextlib.suppress(OSError, TimeoutError):
        writer.write_eof()
        async with asyncio.timeout(LINGER_S):
            for _ in range(LINGER_READS):
                if not await reader.read(READ_BYTES):
                    break
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _writing(writer: asyncio.StreamWriter) -> Callable[[bytes], Awaitable[None]]:
    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    return write


async def _say(browser: HttpEnd, request: Any, page: Page) -> bool:
    """And hang up: what else the browser was about to send is not read."""
    headers = [
        (b"content-type", page.kind.encode()),
        (b"content-length", str(len(page.body)).encode()),
        (b"connection", b"close"),
        *SECURITY,
        *page.headers,
    ]
    with contextlib.suppress(h11.LocalProtocolError):  # half of an answer is out already
        await browser.send(h11.Response(status_code=page.status, headers=headers))
        if request is None or request.method != b"HEAD":
            await browser.send(h11.Data(data=page.body))
        await browser.send(h11.EndOfMessage())
    return False


def _refused(refusal: Refusal) -> Page:
    return Page(refusal.status, "text/plain; charset=utf-8", f"gpunion: {refusal.words}\n".encode())


def _why_not(request: Any, trouble: ClientError) -> Page:
    if isinstance(trouble, ApiProblem) and trouble.code == "session_over":
        return _told(request, 410, "This session is over", f"{trouble.detail}. {trouble.next_step}.")
    words = f"{trouble.detail}." if isinstance(trouble, ApiProblem) else f"{trouble}."
    return _away(request, words)


def _away(request: Any, words: str) -> Page:
    return _told(request, 503, "This session is on its way", words, again_s=3)


def _told(request: Any, status: int, title: str, words: str, again_s: int = 0) -> Page:
    """For a person a page, which looks again by itself; for a program an object."""
    again = ((b"retry-after", str(again_s).encode()),) if again_s else ()
    try:
        wants_page = "text/html" in (header(request, "accept") or "")
    except BadPeer:
        wants_page = False
    if not wants_page:
        body = json.dumps({"message": f"{title}: {words}", "reason": None}).encode()
        return Page(status, "application/json", body, again)
    refresh = f'<meta http-equiv="refresh" content="{again_s}">' if again_s else ""
    look = "<p>This page looks again every few seconds.</p>" if again_s else ""
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{refresh}'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><h1>{html.escape(title)}</h1><p>{html.escape(words)}</p>{look}</body></html>"
    )
    return Page(status, "text/html; charset=utf-8", text.encode(), again)
