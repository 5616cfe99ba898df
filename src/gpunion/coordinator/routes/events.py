"""The decision log as it grows (server-sent events), resumable at any line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse

from gpunion.coordinator.api import views
from gpunion.coordinator.api.access import Admin, TheCampus
from gpunion.coordinator.api.event_streams import QUIET_LIMIT_S, STILL_HERE, STREAM, stream_of
from gpunion.coordinator.loop.event_watchers import Watcher
from gpunion.coordinator.services import Campus
from gpunion.ports.database import LoggedDecision
from gpunion.wire.v1.campus import EventsQuery

router = APIRouter(tags=["events"])

_PAGE = 500


@router.get("/events", response_class=StreamingResponse, responses={200: {"content": STREAM}})
async def events(
    campus: TheCampus,
    _caller: Admin,
    query: Annotated[EventsQuery, Query()],
    last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
) -> StreamingResponse:
    since = query.since if last_event_id is None else last_event_id
    return stream_of(campus, lambda watcher: _told(campus, watcher, since))


async def _told(campus: Campus, watcher: Watcher, since: int | None) -> AsyncIterator[str]:
    """First what was missed, from the store; then what comes."""
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
            yield STILL_HERE
            continue
        if news is None:
            return
        if last is None or news.seq > last:
            yield _event(news)


def _event(line: LoggedDecision) -> str:
    return f"id: {line.seq}\nevent: decision\ndata: {views.decision_out(line).model_dump_json()}\n\n"
