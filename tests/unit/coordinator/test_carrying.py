"""A stream to a session is over at the machine when its user is, however early they left."""

from __future__ import annotations

from typing import Any, cast

import pytest
from starlette.websockets import WebSocket, WebSocketDisconnect

from gpunion.coordinator.routes.sessions.carrying import carry
from gpunion.coordinator.routes.sessions.holding import Led
from gpunion.tunnel.messages import Kind, pack, unpack
from gpunion.tunnel.streams import Tunnel
from gpunion.tunnel.targets import Socket, Target


class Gone:
    """The user of a WebSocket who left before it was accepted."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def accept(self) -> None:
        raise self._error


@pytest.mark.parametrize("error", [RuntimeError("sent after close"), WebSocketDisconnect(1006), OSError()])
async def test_whoever_leaves_before_they_are_accepted_leaves_no_stream_behind(error: Exception) -> None:
    sent: list[tuple[int, Kind]] = []

    async def send(message: bytes) -> None:
        stream_id, kind, _ = unpack(message)
        sent.append((stream_id, kind))
        if kind is Kind.OPEN:
            tunnel.received(pack(stream_id, Kind.OPENED))

    tunnel = Tunnel(send)
    stream = await tunnel.open(Target(run_id="job-e1", place=Socket.LAB))
    await carry(cast(WebSocket, cast(Any, Gone(error))), Led(tunnel, stream))
    assert sent == [(stream.id, Kind.OPEN), (stream.id, Kind.RESET)]
    assert tunnel.streams == 0
