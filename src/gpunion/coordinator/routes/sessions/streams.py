"""Streams to sessions, and into jobs: what a person's own machine opens, one WebSocket each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from fastapi import APIRouter, WebSocket
from starlette.requests import HTTPConnection

from gpunion.coordinator.api.gate import caller_of
from gpunion.coordinator.api.problems import ApiError, response_of
from gpunion.coordinator.routes.jobs import find
from gpunion.coordinator.routes.sessions.carrying import carry
from gpunion.coordinator.routes.sessions.holding import Led, lead
from gpunion.coordinator.routes.sessions.listing import session_named
from gpunion.coordinator.services import Campus, of_connection
from gpunion.domain.ids import JobId
from gpunion.ports.database import CredentialKind
from gpunion.tunnel.targets import BadTarget, Place, parse_place

router = APIRouter(tags=["sessions"])

log = structlog.get_logger("gpunion.coordinator")


@router.websocket("/sessions/{name}/stream")
async def session_stream(socket: WebSocket, name: str, to: str = "lab") -> None:
    """Waits for a session that moves."""
    await _serve(socket, lambda campus: session_named(campus, name).id, to)


@router.websocket("/jobs/{job_id}/stream")
async def job_stream(socket: WebSocket, job_id: str, to: str) -> None:
    """`to`: port:NUMBER or terminal:ROWSxCOLUMNS."""
    await _serve(socket, lambda campus: find(campus, job_id).id, to)


async def _serve(socket: WebSocket, job_of: Callable[[Campus], JobId], to: str) -> None:
    campus = of_connection(socket)
    try:
        _check(socket)
        led = await _led(socket, campus, job_of(campus), _place(to))
    except ApiError as refusal:
        await socket.send_denial_response(response_of(refusal))
        return
    if led is not None:
        await carry(socket, led)


def _check(socket: HTTPConnection) -> None:
    if caller_of(socket).kind is not CredentialKind.ADMIN:
        raise ApiError(403, "forbidden", "this credential opens no sessions", "use the admin token")
    if "origin" in socket.headers:
        # No page of any site opens one: `gpunion notebook` does, with its user's token.
        raise ApiError(403, "forbidden", "a browser's page opens no streams", "use gpunion notebook")


def _place(to: str) -> Place:
    try:
        return parse_place(to)
    except BadTarget as bad:
        raise ApiError(422, "bad_target", str(bad), "see the parameter `to`") from bad


async def _led(socket: WebSocket, campus: Campus, job_id: JobId, place: Place) -> Led | None:
    """None: whoever asked has gone while waiting."""
    await socket.receive()  # that it wants to connect
    leaving = asyncio.create_task(socket.receive())
    leading = asyncio.create_task(lead(campus, job_id, place, gone=leaving.done))
    try:
        await asyncio.wait([leaving, leading], return_when=asyncio.FIRST_COMPLETED)
        if leading.done():
            return leading.result()
        return None
    finally:
        for task in (leaving, leading):
            task.cancel()
        await asyncio.gather(leaving, leading, return_exceptions=True)
