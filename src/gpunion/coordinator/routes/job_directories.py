"""Directories on their way: offered and sent by whoever submits, fetched by the node that runs the job.

First the list is offered; the answer says which blocks are missing. Those are sent, a batch a request, and
the list is offered again. A sender that was cut off begins with the same offer and is asked for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Response
from starlette.requests import Request
from starlette.responses import StreamingResponse

from gpunion.coordinator.api.access import Admin, Anybody, TheCampus
from gpunion.coordinator.api.problems import ApiError, not_found
from gpunion.coordinator.services import Campus
from gpunion.vault.job_directories import BadStream, Unframing, frame
from gpunion.vault.tree import BadTree
from gpunion.wire.v1.job_directories import BlocksIn, BlocksOut, TreeOut

router = APIRouter(tags=["trees"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
# Of one request; so many blocks of 4 MiB it may hold in memory.
AT_A_TIME = 8
LIST_TYPE, STREAM_TYPE = "application/x-ndjson", "application/octet-stream"
_STREAM = {STREAM_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_LIST = {LIST_TYPE: {"schema": {"type": "string", "format": "binary"}}}


@router.put("/trees/{digest}", openapi_extra={"requestBody": {"required": True, "content": _LIST}})
async def offer_tree(digest: Digest, campus: TheCampus, _caller: Admin, request: Request) -> TreeOut:
    """Keeps the list where all of its blocks are here (`kept`); else says which are `missing`."""
    try:
        async with campus.bodies.of(request) as listing:
            offer = await asyncio.to_thread(campus.trees.offer, digest, listing)
    except BadTree as error:
        raise ApiError(
            422, "bad_tree", str(error), "offer the list again as this version writes it"
        ) from error
    return TreeOut(digest=digest, kept=not offer.missing, missing=list(offer.missing))


@router.get("/trees/{digest}", response_class=Response, responses={200: {"content": _LIST}})
async def get_tree(digest: Digest, campus: TheCampus, _caller: Anybody) -> Response:
    listing = await asyncio.to_thread(campus.trees.listing, digest)
    if listing is None:
        raise not_found(f"directory {digest}", "PUT its list first")
    return Response(listing, media_type=LIST_TYPE)


@router.post("/blocks", openapi_extra={"requestBody": {"required": True, "content": _STREAM}})
async def put_blocks(campus: TheCampus, _caller: Admin, request: Request) -> BlocksOut:
    """Each block is kept as it arrives: what came before a break need not be sent again."""
    unframing = Unframing()
    keeping = _Keeping(campus)
    try:
        async for piece in request.stream():
            for name, data in unframing.feed(piece):
                await keeping.begin(name, data)
        unframing.close()
    except BadStream as error:
        raise ApiError(422, "bad_stream", str(error), "send whole blocks under their own hashes") from error
    finally:
        await keeping.end()
    return BlocksOut(blocks=keeping.blocks, stored_bytes=keeping.stored_bytes)


@router.post("/blocks/fetch", response_class=StreamingResponse, responses={200: {"content": _STREAM}})
async def fetch_blocks(wanted: BlocksIn, campus: TheCampus, _caller: Anybody) -> StreamingResponse:
    """A stream of the blocks that are here, in the order asked for; one that is not is left out."""
    return StreamingResponse(_stream(campus, wanted.blocks), media_type=STREAM_TYPE)


class _Keeping:
    """Several blocks at a time: each waits for the disk, and small ones would wait one after another."""

    def __init__(self, campus: Campus) -> None:
        self._campus = campus
        self._under_way: set[asyncio.Task[int]] = set()
        self.blocks = self.stored_bytes = 0

    async def begin(self, name: str, data: bytes) -> None:
        if len(self._under_way) >= AT_A_TIME:
            await self._settle(asyncio.FIRST_COMPLETED)
        put = asyncio.to_thread(self._campus.trees.put, name, data)
        self._under_way.add(asyncio.create_task(put))

    async def end(self) -> None:
        if self._under_way:
            await self._settle(asyncio.ALL_COMPLETED)

    async def _settle(self, until: str) -> None:
        done, self._under_way = await asyncio.wait(self._under_way, return_when=until)
        for task in done:
            self.stored_bytes += task.result()
            self.blocks += 1


async def _stream(campus: Campus, names: list[str]) -> AsyncIterator[bytes]:
    for name in names:
        data = await asyncio.to_thread(campus.trees.read, name)
        if data is not None:
            yield frame(data, name)
