"""The tunnel as a WebSocket: one binary message each way is one message of its protocol."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from gpunion.ports.coordinator_link import LinkFault
from gpunion.tunnel.messages import MESSAGE_MAX_BYTES

OPEN_LIMIT_S = 10.0
CLOSE_LIMIT_S = 1.0
# What may wait to be sent, of all streams together: a stream's writer waits beyond that.
WRITE_BUFFER_BYTES = 256 * 1024


class WebSocketTunnel:
    """Implements `ports.guest_streams.TunnelLink`."""

    def __init__(self, url: str, credential: str) -> None:
        self._url = f"{url.replace('http', 'ws', 1)}/api/v1/agent/tunnel"
        self._headers = {"Authorization": f"Bearer {credential}"}

    @contextlib.asynccontextmanager
    async def connect_tunnel(self) -> AsyncIterator[WebSocketTunnelSession]:
        try:
            connection = await connect(
                self._url,
                additional_headers=self._headers,
                max_size=MESSAGE_MAX_BYTES,
                open_timeout=OPEN_LIMIT_S,
                close_timeout=CLOSE_LIMIT_S,
                write_limit=WRITE_BUFFER_BYTES,
                compression=None,  # what is worth it, a browser and its server have compressed
                proxy=None,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            raise LinkFault(f"the coordinator answered {status} to a tunnel", temporary=True) from error
        except (OSError, TimeoutError, WebSocketException) as error:
            why = str(error) or type(error).__name__
            raise LinkFault(f"cannot open a tunnel: {why}", temporary=True) from error
        try:
            yield WebSocketTunnelSession(connection)
        finally:
            await connection.close()


class WebSocketTunnelSession:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, message: bytes) -> None:
        try:
            await self._connection.send(message)
        except ConnectionClosed as error:
            raise ConnectionError("the tunnel is gone") from error

    async def messages(self) -> AsyncIterator[bytes]:
        with contextlib.suppress(ConnectionClosed):
            async for message in self._connection:
                yield message if isinstance(message, bytes) else message.encode()
