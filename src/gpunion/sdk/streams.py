"""Streams of bytes to a session or into a job, each a WebSocket to the coordinator.

A session that moves is waited for, by the coordinator and here: a coordinator that restarts is asked again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import quote, urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from gpunion.sdk.errors import ApiProblem, ClientError, NotACoordinator, Unreachable

# The coordinator lets a request wait for 120 s; then it says where the session is.
ANSWER_LIMIT_S = 150.0
AGAIN_S = 0.5
CLOSE_LIMIT_S = 1.0
PIECE_BYTES = 1 << 16
# So long nothing comes, then the coordinator is asked whether it is there, and given as long to say so.
QUIET_S = 20.0
DONE = 1000


class StreamBroken(ClientError):
    """It was open and broke off: the session moves, or its machine is gone."""


class ByteStream:
    """Read until nothing comes; write; end."""

    def __init__(self, connection: ClientConnection, *, quiet_s: float = QUIET_S) -> None:
        self._connection = connection
        self._quiet_s = quiet_s
        self._ended_there = self._lost = False

    @property
    def alive(self) -> bool:
        return self._connection.state.name == "OPEN" and not self._ended_there and not self._lost

    async def read(self) -> bytes:
        if self._ended_there:
            return b""
        try:
            data = await self._came()
        except ConnectionClosed as closed:
            raise _broken(closed) from closed
        piece = data if isinstance(data, bytes) else data.encode()
        self._ended_there = not piece
        return piece

    async def _came(self) -> bytes | str:
        """A machine that changes its network has connections that are dead without a word. Asked only while
        somebody reads and nothing comes: the answer stands behind what nobody has read yet."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._quiet_s):
                return await self._connection.recv()
        receiving = asyncio.ensure_future(self._connection.recv())
        try:
            while not receiving.done():
                await self._ask_whether_there(receiving)
                await asyncio.wait([receiving], timeout=self._quiet_s)
            return receiving.result()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _ask_whether_there(self, receiving: asyncio.Future[bytes | str]) -> None:
        """Returns once anything has come."""
        asking = asyncio.ensure_future(self._asked())
        either: list[asyncio.Future[Any]] = [receiving, asking]
        try:
            await asyncio.wait(either, timeout=self._quiet_s, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done() and not asking.done():
                self._lost = True
                self._connection.transport.abort()
                raise StreamBroken("the coordinator is not heard any more")
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _asked(self) -> None:
        await (await self._connection.ping())

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
                ping_interval=None,  # ByteStream does so, and only where the answer would be read
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
