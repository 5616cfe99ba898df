"""Streams of bytes to a session or into a job, each a WebSocket to the coordinator.

A session that moves is waited for, by the coordinator and here: a coordinator that restarts is asked again.
"""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote, urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from gpunion.sdk.errors import ApiProblem, ClientError, NotACoordinator, Unreachable

# The coordinator lets a request wait for 120 s; then it says where the session is.
ANSWER_LIMIT_S = 150.0
AGAIN_S = 0.5
CLOSE_LIMIT_S = 1.0
PIECE_BYTES = 1 << 16
DONE = 1000


class StreamBroken(ClientError):
    """It was open and broke off: the session moves, or its machine is gone."""


class ByteStream:
    """Read until nothing comes; write; end."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._ended_there = False

    @property
    def alive(self) -> bool:
        return self._connection.state.name == "OPEN" and not self._ended_there

    async def read(self) -> bytes:
        if self._ended_there:
            return b""
        try:
            data = await self._connection.recv()
        except ConnectionClosed as closed:
            raise _broken(closed) from closed
        piece = data if isinstance(data, bytes) else data.encode()
        self._ended_there = not piece
        return piece

    async def write(self, data: bytes) -> None:
        try:
            for start in range(0, len(data), PIECE_BYTES):
                await self._connection.send(data[start : start + PIECE_BYTES])
        except ConnectionClosed as closed:
            raise _broken(closed) from closed

    async def end(self) -> None:
        try:
            await self._connection.send(b"")
        except ConnectionClosed as closed:
            raise _broken(closed) from closed

    async def close(self) -> None:
        await self._connection.close()


class Streams:
    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._base = f"{self.url.replace('http', 'ws', 1)}/api/v1"
        self._headers = {"Authorization": f"Bearer {token}"}

    async def to_session(self, name: str, to: str, *, patience_s: float = ANSWER_LIMIT_S) -> ByteStream:
        """`patience_s`: for a coordinator that does not answer."""
        return await self._open(f"/sessions/{quote(name, safe='')}/stream", to, patience_s)

    async def into_job(self, job_id: str, to: str, *, patience_s: float = 0.0) -> ByteStream:
        return await self._open(f"/jobs/{quote(job_id, safe='')}/stream", to, patience_s)

    async def _open(self, path: str, to: str, patience_s: float) -> ByteStream:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + patience_s
        while True:
            try:
                return ByteStream(await self._connected(f"{self._base}{path}?{urlencode({'to': to})}"))
            except Unreachable:
                if loop.time() >= until_s:
                    raise
            await asyncio.sleep(AGAIN_S)

    async def _connected(self, address: str) -> ClientConnection:
        try:
            return await connect(
                address,
                additional_headers=self._headers,
                max_size=2 * PIECE_BYTES,
                open_timeout=ANSWER_LIMIT_S,
                close_timeout=CLOSE_LIMIT_S,
                compression=None,
                proxy=None,
                ping_interval=None,  # a guest that stands still keeps its streams
            )
        except InvalidStatus as refused:
            raise self._refusal(
                refused.response.status_code, bytes(refused.response.body or b"")
            ) from refused
        except (OSError, TimeoutError, WebSocketException) as error:
            raise Unreachable(self.url, str(error) or type(error).__name__) from error

    def _refusal(self, status: int, body: bytes) -> ClientError:
        try:
            said = json.loads(body)
            return ApiProblem(
                code=said["code"],
                title=said["title"],
                detail=said["detail"],
                next_step=said["next_step"],
                status=status,
                body=said,
            )
        except (ValueError, KeyError, TypeError):
            # A coordinator that is just ending refuses without a word.
            return (
                Unreachable(self.url, f"status {status}")
                if status >= 500
                else NotACoordinator(self.url, status)
            )


def _broken(closed: ConnectionClosed) -> StreamBroken:
    received = closed.rcvd
    if received is not None and received.code == DONE:
        return StreamBroken("the stream is over")
    return StreamBroken((received.reason if received is not None else "") or "the connection broke")
