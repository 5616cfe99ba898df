"""Server-sent events: a stream for whoever watches, which ends with the coordinator and is seldom quiet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse

from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.loop.event_watchers import TooManyWatchers, Watcher
from gpunion.coordinator.services import Campus

# Proxies cut streams that say nothing for a minute.
QUIET_LIMIT_S = 15.0
STILL_HERE = ": still here\n\n"
RECONNECT_MS = 1000
STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


def stream_of(campus: Campus, parts: Callable[[Watcher], AsyncIterator[str]]) -> StreamingResponse:
    """The watcher is there before the first look at anything."""
    watching = campus.hub.watch()
    try:
        watcher = watching.__enter__()
    except TooManyWatchers as refused:
        detail = "too many are watching already, or the coordinator is ending"
        raise ApiError(503, "busy", detail, "try again in a moment") from refused

    async def stream() -> AsyncIterator[str]:
        try:
            yield f"retry: {RECONNECT_MS}\n\n"
            async for part in parts(watcher):
                yield part
        finally:
            watching.__exit__(None, None, None)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)
