"""A stream of a tunnel as a WebSocket for whoever asked: binary messages each way; an empty one is the end of
that way."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.websockets import WebSocket, WebSocketDisconnect

from gpunion.coordinator.routes.sessions.holding import Led
from gpunion.tunnel.streams import StreamClosed
from gpunion.wire.agent_v1 import close_reason

# Close codes of RFC 6455: done; come again, since the guest is on its way.
DONE, MOVED = 1000, 1012


async def carry(socket: WebSocket, led: Led) -> None:
    """Until both ways have ended or one side is gone. The stream is over then, whatever became of the socket,
    also of one whose user left before it was accepted: an agent has room for so many."""
    try:
        await socket.accept()
        code, why = await _carried(socket, led)
    except (WebSocketDisconnect, RuntimeError, OSError):
        return
    finally:
        led.tunnel.drop(led.stream)
        with contextlib.suppress(OSError):
            await led.stream.reset("whoever asked is gone")
    with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect):
        await socket.close(code, close_reason(why))


async def _carried(socket: WebSocket, led: Led) -> tuple[int, str]:
    up = asyncio.create_task(_up(socket, led))
    down = asyncio.create_task(_down(socket, led))
    try:
        await asyncio.wait([up, down], return_when=asyncio.FIRST_EXCEPTION)
        return _how_it_ended(up, down)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


def _how_it_ended(*tasks: asyncio.Task[None]) -> tuple[int, str]:
    for task in tasks:
        if task.done() and isinstance(error := task.exception(), StreamClosed):
            return MOVED, str(error)
    return DONE, ""


async def _up(socket: WebSocket, led: Led) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        data = message.get("bytes")
        if data is None:
            data = (message.get("text") or "").encode()
        if not data:
            await led.stream.end()
        else:
            await led.stream.write(data)


async def _down(socket: WebSocket, led: Led) -> None:
    while piece := await led.stream.read():
        await socket.send_bytes(piece)
    await socket.send_bytes(b"")
