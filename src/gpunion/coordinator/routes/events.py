"""The decision log as it grows (server-sent events), resumable at any line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse

from gpunion.coordinator import views
from gpunion.coordinator.campus import Campus
from gpunion.coordinator.hub import TooManyWatchers, Watcher
from gpunion.coordinator.problems import ApiError
from gpunion.coordinator.routes.access import Admin, TheCampus
from gpunion.ports.store import LoggedDecision
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
        page = await campus.store.log(since_seq=last, limit=_PAGE)
        for line in page:
            last = line.seq
            yield _event(line)
        if len(page) < _PAGE:
            break
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
