"""The agents' connection. A frame nobody can read closes it with a reason; it never harms the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from gpunion.coordinator.api.gate import caller_of
from gpunion.coordinator.api.problems import ApiError, response_of
from gpunion.coordinator.loop.answers import NotAccepting, NotHandled
from gpunion.coordinator.loop.connections import Line
from gpunion.coordinator.services import Campus, of_connection
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.trust import NodeMisled
from gpunion.domain.protocol.frames import PROTOCOL_VERSION, BusyGpus, FromAgent, GpuReadings, Hello
from gpunion.ports.database import Credential, CredentialKind, StoreFull
from gpunion.wire import agent_v1
from gpunion.wire.codec import Malformed

router = APIRouter(tags=["agent"])

HELLO_LIMIT_S = 10.0
# A peer that does not take a frame for this long is not there; its lease runs out anyway.
SEND_LIMIT_S = 10.0

log = structlog.get_logger("gpunion.coordinator")


class Closing(Exception):
    """Why the connection ends, in words for the peer."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@router.websocket("/agent")
async def agent(socket: WebSocket) -> None:
    campus, caller = of_connection(socket), caller_of(socket)
    if caller.kind is not CredentialKind.NODE:
        error = ApiError(403, "forbidden", "only a node may connect here", "use the node's credential")
        await socket.send_denial_response(response_of(error))
        return
    await socket.accept()
    line = Line(NodeId(caller.name))
    try:
        await _serve(campus, socket, caller, line)
    except Closing as closing:
        log.warning("agent_refused", node=caller.name, code=closing.code, reason=str(closing))
        await _close(socket, closing.code, str(closing))
    except NotAccepting:
        await _close(socket, agent_v1.CLOSE_RESTARTING, "the coordinator is ending; connect again")
    except NotHandled as bug:
        log.warning("agent_not_welcomed", node=caller.name, trouble=str(bug))
        reason = f"what it said could not be handled ({bug}); tell the operator"
        await _close(socket, agent_v1.CLOSE_MALFORMED, reason)
    except StoreFull as full:
        log.warning("agent_not_welcomed", node=caller.name, trouble=str(full))
        await _close(socket, agent_v1.CLOSE_RESTARTING, "the coordinator's disk is full; connect again")
    except (WebSocketDisconnect, TimeoutError, OSError, RuntimeError) as gone:
        if isinstance(gone, RuntimeError) and socket.application_state is WebSocketState.CONNECTED:
            raise
        log.info("agent_gone", node=caller.name)
    finally:
        if campus.switchboard.is_current(line):
            campus.hardware.forget(line.node_id)
        campus.loop.hang_up(line)


async def _serve(campus: Campus, socket: WebSocket, caller: Credential, line: Line) -> None:
    hello = await _first_frame(socket, caller)
    campus.switchboard.take(line)
    log.info("agent_connected", node=caller.name, incarnation=hello.incarnation)
    await until_one_ends(_send_all(campus, socket, line), _receive_all(campus, socket, line, hello))


async def until_one_ends(*parts: Coroutine[Any, Any, None]) -> None:
    """Ends the others then, and raises what went wrong with the first of them that something did. A line
    that breaks may end all at the same moment: what each says is heard, so that none is logged as lost."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _first_frame(socket: WebSocket, caller: Credential) -> Hello:
    try:
        async with asyncio.timeout(HELLO_LIMIT_S):
            frame = await _receive(socket)
    except TimeoutError as error:
        raise Closing(agent_v1.CLOSE_NO_HELLO, f"no hello within {HELLO_LIMIT_S:.0f} s") from error
    if not isinstance(frame, Hello):
        raise Closing(agent_v1.CLOSE_MALFORMED, f"the first frame is a Hello, not a {type(frame).__name__}")
    if frame.version != PROTOCOL_VERSION:
        reason = f"version {frame.version} is not spoken here; use version {PROTOCOL_VERSION}"
        raise Closing(agent_v1.CLOSE_VERSION, reason)
    return _checked(frame, caller)


async def _receive_all(campus: Campus, socket: WebSocket, line: Line, hello: Hello) -> None:
    caller = caller_of(socket)
    frame: FromAgent = hello
    while True:
        await _keep_pace(campus, line, frame)
        if not isinstance(frame, GpuReadings | BusyGpus):
            await campus.loop.deliver(line, frame)
        elif campus.switchboard.is_current(line):
            campus.usage.heard(line.node_id, frame)
            if isinstance(frame, GpuReadings):
                campus.hardware.take(line.node_id, frame)
        frame = await _receive(socket)
        if isinstance(frame, Hello):
            frame = _checked(frame, caller)


async def _keep_pace(campus: Campus, line: Line, frame: FromAgent) -> None:
    node = campus.state.nodes.get(line.node_id)
    pace = campus.pace.of(line.node_id, frame, isolated=node is not None and bool(node.isolated_because))
    if pace.too_long:
        with suppress(NotHandled):
            await campus.loop.post(NodeMisled(node_id=line.node_id, because=pace.too_long))
    await asyncio.sleep(pace.wait_s)  # and where it need not wait, others have their turn


async def _send_all(campus: Campus, socket: WebSocket, line: Line) -> None:
    while True:
        line.wake.clear()
        if line.replaced:
            raise Closing(agent_v1.CLOSE_REPLACED, "a newer connection of this node took over")
        for frame in list(campus.station.outgoing(campus.clock.now_s(), line.node_id)):
            async with asyncio.timeout(SEND_LIMIT_S):
                await socket.send_bytes(agent_v1.pack(frame))
        with suppress(TimeoutError):
            async with asyncio.timeout(campus.timing.resend_s):
                await line.wake.wait()


async def _receive(socket: WebSocket) -> FromAgent:
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    data = message.get("bytes") or message.get("text") or b""
    try:
        return agent_v1.unpack_from_agent(data)
    except agent_v1.WrongVersion as error:
        raise Closing(agent_v1.CLOSE_VERSION, str(error)) from error
    except agent_v1.TooBig as error:
        raise Closing(agent_v1.CLOSE_TOO_BIG, str(error)) from error
    except Malformed as error:
        raise Closing(agent_v1.CLOSE_MALFORMED, str(error)) from error


def _checked(hello: Hello, caller: Credential) -> Hello:
    """A node speaks for itself only, and is of the lab it enrolled for."""
    if hello.node_id != caller.name:
        reason = f"this credential is of {caller.name}, not of {hello.node_id[:32]}"
        raise Closing(agent_v1.CLOSE_WRONG_NODE, reason)
    return replace(hello, facts=replace(hello.facts, lab=caller.lab))


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    with suppress(RuntimeError, OSError, WebSocketDisconnect):
        await socket.close(code, agent_v1.close_reason(reason))
