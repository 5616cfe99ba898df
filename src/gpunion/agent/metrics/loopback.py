"""This machine's own GPUs at `http://127.0.0.1:PORT/metrics`, all of them, for whoever is on the machine.

Like `nvidia-smi`, it tells whoever can run a program here how the GPUs are. It is off unless its owner names
a port (`metrics_port`), and listens on the loopback only: guests have one of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from gpunion.ports.metrics import Metrics, NoMetrics, Sample

HOST = "127.0.0.1"
# A request is one line and a few headers, at once.
REQUEST_LIMIT_BYTES = 8 * 1024
REQUEST_LIMIT_S = 5.0
AT_ONCE = 8  # more are turned away: one Prometheus asks one at a time


log = structlog.get_logger()


class Loopback:
    def __init__(self, port: int, metrics: Metrics, samples: Callable[[], list[Sample]]) -> None:
        self._port = port
        self._metrics = metrics
        self._samples = samples
        self._asked = 0

    async def run(self) -> None:
        """Until cancelled. A port that is taken keeps nobody from lending."""
        if self._port:
            try:
                server = await asyncio.start_server(self._answer, HOST, self._port, limit=REQUEST_LIMIT_BYTES)
            except OSError as error:
                log.error("metrics_port_not_opened", port=self._port, trouble=str(error))
            else:
                async with server:
                    await server.serve_forever()
        await asyncio.Event().wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._asked += 1
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                writer.write(await self._response(reader) if self._asked <= AT_ONCE else _said(503, "busy"))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone, or asks nothing
        finally:
            self._asked -= 1
            with suppress(OSError):
                writer.close()

    async def _response(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b"\r\n", 1)[0].split(b" ")[:2] != [b"GET", b"/metrics"]:
            return _said(404, "there is only GET /metrics here")
        try:
            page = await asyncio.to_thread(self._metrics.page, self._samples())
        except NoMetrics as missing:
            return _said(503, str(missing))
        return _response(200, self._metrics.media_type, page)


def _said(code: int, why: str) -> bytes:
    return _response(code, "text/plain; charset=utf-8", why.encode() + b"\n")


def _response(code: int, media_type: str, body: bytes) -> bytes:
    reason = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}[code]
    head = f"HTTP/1.1 {code} {reason}\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
    return (head + "Connection: close\r\n\r\n").encode() + body
