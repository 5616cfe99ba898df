"""The agent's one connection: a WebSocket it opens itself, and the requests beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from gpunion.adapters.http.requests import faults, refusal
from gpunion.domain.protocol.frames import CoordinatorFrame, FromAgent
from gpunion.ports.coordinator_link import LinkFault
from gpunion.vault.job_directories import LIST_LIMIT_BYTES, BadStream, Unframing, digest_of
from gpunion.vault.locations import Place, place_of
from gpunion.wire.agent_v1 import (
    CLOSE_REPLACED,
    CLOSE_VERSION,
    CLOSE_WRONG_NODE,
    pack,
    unpack_from_coordinator,
)
from gpunion.wire.codec import FRAME_LIMIT_BYTES, Malformed

# A coordinator on a campus answers in milliseconds; a connection that takes longer would not hold either.
OPEN_LIMIT_S = 10.0
# Leaving must not wait for a coordinator that has stopped answering.
CLOSE_LIMIT_S = 1.0
REQUEST_LIMIT_S = 30.0
# Another process of this node took the connection over: the two must not fight over it.
REPLACED_WAIT_S = 30.0
COPY_BYTES = 256 * 1024
PIECE_BYTES = 1024 * 1024
UNAUTHORIZED, CONFLICT = 401, 409

log = structlog.get_logger()


class HttpLink:
    """Implements `ports.coordinator_link.CoordinatorLink`."""

    def __init__(self, url: str, credential: str) -> None:
        self._socket_url = f"{url.replace('http', 'ws', 1)}/api/v1/agent"
        self._headers = {"Authorization": f"Bearer {credential}"}
        self._client = httpx.AsyncClient(
            base_url=f"{url}/api/v1", headers=self._headers, timeout=REQUEST_LIMIT_S, trust_env=False
        )

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[HttpSession]:
        try:
            connection = await connect(
                self._socket_url,
                additional_headers=self._headers,
                max_size=FRAME_LIMIT_BYTES,
                open_timeout=OPEN_LIMIT_S,
                close_timeout=CLOSE_LIMIT_S,
                proxy=None,  # a campus coordinator is reached directly, whatever a login shell exports
            )
        except InvalidStatus as error:
            raise _turned_away(error.response.status_code) from error
        except (OSError, TimeoutError, WebSocketException) as error:
            raise LinkFault(f"cannot connect: {error or type(error).__name__}", temporary=True) from error
        try:
            yield HttpSession(connection)
        finally:
            await connection.close()

    async def fetch_tree(self, digest: str) -> bytes:
        what = "the list of the job's directory cannot be fetched"
        with faults(what):
            async with self._client.stream("GET", f"/trees/{digest}") as answer:
                if answer.status_code != httpx.codes.OK:
                    await answer.aread()
                    raise refusal(answer, what)
                listing = bytearray()
                async for piece in answer.aiter_bytes():
                    listing += piece
                    if len(listing) > LIST_LIMIT_BYTES:
                        raise LinkFault(f"{what}: it is too long", temporary=False)
        if digest_of(bytes(listing)) != digest:
            raise LinkFault(f"{what}: other bytes came than {digest[:12]}…", temporary=False)
        return bytes(listing)

    async def fetch_blocks(self, names: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        what = "the job's directory cannot be fetched"
        unframing = Unframing()
        with faults(what):
            body = {"blocks": list(names)}
            async with self._client.stream("POST", "/blocks/fetch", json=body) as answer:
                if answer.status_code != httpx.codes.OK:
                    await answer.aread()
                    raise refusal(answer, what)
                async for piece in answer.aiter_bytes(COPY_BYTES):
                    for found in _unframed(unframing, piece):
                        yield found

    async def fetch_archive(self, digest: str, into: Path, reached: Callable[[int], None]) -> None:
        what = "the image cannot be fetched"
        here = into.stat().st_size if into.exists() else 0
        rest = {"Range": f"bytes={here}-"} if here else {}
        with faults(what):
            async with self._client.stream("GET", f"/image-archives/{digest}", headers=rest) as answer:
                if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return  # there is no more of it
                if answer.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
                    await answer.aread()
                    raise refusal(answer, what)
                if answer.status_code == httpx.codes.OK:
                    here = 0
                with open(into, "r+b" if into.exists() else "wb") as file:
                    file.truncate(here)
                    file.seek(here)
                    async for piece in answer.aiter_bytes(PIECE_BYTES):
                        await asyncio.to_thread(file.write, piece)
                        reached(file.tell())

    async def fetch_places(self) -> tuple[Place, ...]:
        what = "the places for checkpoints cannot be asked for"
        with faults(what):
            answer = await self._client.get("/places")
            if answer.status_code != httpx.codes.OK:
                raise refusal(answer, what)
            try:
                rows = answer.json()["places"]
                return tuple(place for row in rows if (place := _understood(row)) is not None)
            except (KeyError, TypeError) as error:
                raise LinkFault(f"{what}: {error}", temporary=True) from error

    async def push_log(self, run_id: str, offset: int, data: bytes, *, end: bool = False) -> int:
        # Said alone where it holds: a coordinator that does not know the word takes everything else.
        params: dict[str, str | int] = {"offset": offset, "end": "true"} if end else {"offset": offset}
        with faults("the log cannot be sent"):
            answer = await self._client.post(f"/agent/runs/{run_id}/log", params=params, content=data)
            if answer.status_code not in (httpx.codes.OK, CONFLICT):
                raise refusal(answer, "the log cannot be sent")
            body = answer.json()
            if "next_offset" not in body:
                raise refusal(answer, "the log cannot be sent")
            return int(body["next_offset"])

    async def close(self) -> None:
        await self._client.aclose()


class HttpSession:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, frame: FromAgent) -> None:
        try:
            await self._connection.send(pack(frame))
        except ConnectionClosed as error:
            raise _closed(error) from error

    async def frames(self) -> AsyncIterator[CoordinatorFrame]:
        try:
            async for data in self._connection:
                yield unpack_from_coordinator(data)
        except ConnectionClosed as error:
            raise _closed(error) from error
        except Malformed as error:
            raise LinkFault(
                f"the coordinator sent something else than a frame: {error}", temporary=True
            ) from error


def _understood(row: dict[str, Any]) -> Place | None:
    """None for a kind of place that a newer coordinator knows: the others are of use all the same."""
    try:
        return place_of(row["name"], row["settings"], told=True)
    except ValueError as error:
        log.warning("place_not_understood", trouble=str(error))
        return None


def _unframed(unframing: Unframing, piece: bytes) -> list[tuple[str, bytes]]:
    try:
        return list(unframing.feed(piece))
    except BadStream as error:
        raise LinkFault(f"the job's directory arrives damaged: {error}", temporary=True) from error


def _turned_away(status: int) -> LinkFault:
    if status == UNAUTHORIZED:
        return LinkFault(
            "the coordinator does not know this node's credential. Next: gpunion leave, then gpunion join",
            temporary=False,
        )
    return LinkFault(f"the coordinator answered {status}", temporary=True)


def _closed(error: ConnectionClosed) -> LinkFault:
    code = error.rcvd.code if error.rcvd is not None else 0
    reason = (error.rcvd.reason if error.rcvd is not None else "") or "the connection broke"
    if code == CLOSE_REPLACED:
        return LinkFault(
            f"another agent has this node's name: {reason}", temporary=True, wait_s=REPLACED_WAIT_S
        )
    if code in (CLOSE_WRONG_NODE, CLOSE_VERSION):
        return LinkFault(reason, temporary=False)
    return LinkFault(f"{reason} ({code})" if code else reason, temporary=True)
