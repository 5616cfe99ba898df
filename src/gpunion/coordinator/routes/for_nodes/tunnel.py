"""A node's second connection, for what people send to its guests. See `gpunion.tunnel`."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from gpunion.coordinator.api.gate import caller_of
from gpunion.coordinator.api.problems import ApiError, response_of
from gpunion.coordinator.services import of_connection
from gpunion.domain.ids import NodeId
from gpunion.ports.database import CredentialKind
from gpunion.tunnel.messages import BadMessage
from gpunion.tunnel.streams import Send, Tunnel
from gpunion.wire.agent_v1 import CLOSE_MALFORMED, close_reason

router = APIRouter(tags=["agent"])

# Whoever waits for a machine that takes nothing, and holds its line, is told.
SEND_LIMIT_S = 60.0

log = structlog.get_logger("gpunion.coordinator")


@router.websocket("/agent/tunnel")
async def tunnel(socket: WebSocket) -> None:
    campus, caller = of_connection(socket), caller_of(socket)
    if caller.kind is not CredentialKind.NODE:
        error = ApiError(403, "forbidden", "only a node may connect here", "use the node's credential")
        await socket.send_denial_response(response_of(error))
        return
    await socket.accept()
    node_id, opened = NodeId(caller.name), Tunnel(_sender(socket))
    campus.tunnels.take(node_id, opened)
    log.info("tunnel_opened", node=node_id)
    try:
        while True:
            opened.received(await socket.receive_bytes())
    except BadMessage as trouble:
        log.warning("tunnel_refused", node=node_id, trouble=str(trouble))
        with suppress(RuntimeError, OSError, WebSocketDisconnect):
            await socket.close(CLOSE_MALFORMED, close_reason(str(trouble)))
    except (WebSocketDisconnect, OSError, KeyError):
        log.info("tunnel_gone", node=node_id)
    finally:
        campus.tunnels.lose(node_id, opened)


def _sender(socket: WebSocket) -> Send:
    async def send(message: bytes) -> None:
        try:
            async with asyncio.timeout(SEND_LIMIT_S):
                await socket.send_bytes(message)
        except TimeoutError as slow:
            raise ConnectionError(f"its machine took nothing for {SEND_LIMIT_S:.0f} s") from slow
        except (RuntimeError, WebSocketDisconnect) as gone:
            raise ConnectionError("the tunnel is gone") from gone

    return send
