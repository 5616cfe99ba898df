"""The decision log as it grows (server-sent events), resumable at any line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse

from gpunion.coordinator.api import views
from gpunion.coordinator.api.access import Admin, TheCampus
from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.loop.event_watchers import TooManyWatchers, Watcher
from gpunion.coordinator.services import Campus
from gpunion.ports.database import LoggedDecision
from gpunion.wire.v1.campus import EventsQuery

router = APIRouter(tags=["events"])

# Proxies cut streams that say nothing for a minute.
QUIET_LIMIT_S = 15.0
RECONNECT_MS = 1000
_PAGE = 500
_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


@router.get("/events", response_class=StreamingResponse, responses={200: {"content": _STREAM}})
async def events(
    campus: TheCampus,
    _caller: Admin,
    query: Annotated[EventsQuery, Query()],
    last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
) -> StreamingResponse:
    since = query.since if last_event_id is None else last_event_id
    watching = campus.hub.watch()
    try:
        watcher = watching.__enter__()
    except TooManyWatchers as refused:
        detail = "too many are watching already, or the coordinator is ending"
        raise ApiError(503, "busy", detail, "try again in a moment") from refused

    async def stream() -> AsyncIterator[str]:
        try:
            async for part in _stream(campus, watcher, since):
                yield part
        finally:
            watching.__exit__(None, None, None)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)


async def _stream(campus: Campus, watcher: Watcher, since: int | None) -> AsyncIterator[str]:
    """First what was missed, from the store; then what comes. The watcher was there before the first look."""
    yield f"retry: {RECONNECT_MS}\n\n"
    last = since
    while last is not None:
        lines = await campus.store.log(since_seq=last, limit=_PAGE)
        if not lines:
            break
        last = lines[-1].seq
        page = [_event(line) for line in lines]
        del lines  # a watcher that reads slowly holds the text of a page and no more
        for told in page:
            yield told
    while True:
        try:
            async with asyncio.timeout(QUIET_LIMIT_S):
                news = await watcher.next()
        except TimeoutError:
            yield ": still here\n\n"
            continue
        if news is None:
            return
        if last is None or news.seq > last:
            yield _event(news)


def _event(line: LoggedDecision) -> str:
    return f"id: {line.seq}\nevent: decision\ndata: {views.decision_out(line).model_dump_json()}\n\n"
