"""Windows: which there are, until when and why, who has them and who bids for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.responses import StreamingResponse

from gpunion.coordinator.api import views
from gpunion.coordinator.api.access import Admin, Anybody, TheCampus
from gpunion.coordinator.api.event_streams import QUIET_LIMIT_S, STILL_HERE, STREAM, stream_of
from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.loop.event_watchers import Watcher
from gpunion.coordinator.routes.jobs import find
from gpunion.coordinator.services import Campus
from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import BidsChanged
from gpunion.domain.jobs.window import WindowEnd
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.planning.clearing.shown import ShownWindow
from gpunion.engine.coordinator.windows.ends import BECAUSE
from gpunion.ports.database import LoggedDecision
from gpunion.wire.v1 import campus as wire
from gpunion.wire.v1 import convert
from gpunion.wire.v1 import job_requests as wishes
from gpunion.wire.v1 import jobs as jobs_wire

# Of those who watch each is told of changes at most so often: bids are worked out for all of them at once.
EVERY_S = 1.0
NEWS = frozenset(
    {
        Why.PLACED,
        Why.PLACE_PROMISED,
        Why.PROMISE_DROPPED,
        Why.TURN_KEPT,
        Why.WINDOW_GIVEN,
        Why.WINDOW_ENDS,
        Why.WINDOW_OVER,
        Why.WINDOW_MISSED,
        Why.WINDOW_SAVE_LOST,
        Why.SHORT_OF_MEMORY,
        Why.FAILED_ON_LESS,
        Why.BIDS_CHANGED,
    }
)
# Of a window without an end: when somebody waits, and when it is nobody's.
OTHERS_BID = "its turn, then others bid"
FREE = "it is free"

router = APIRouter(tags=["campus"])


@router.get("/windows")
async def windows(campus: TheCampus, _caller: Anybody) -> wire.WindowList:
    return _lately(campus)


@router.get("/windows/events", response_class=StreamingResponse, responses={200: {"content": STREAM}})
async def window_events(campus: TheCampus, _caller: Admin) -> StreamingResponse:
    """`windows`: all of them, whenever something about them has changed; `news`: who got one, and what came
    of it."""
    return stream_of(campus, lambda watcher: _told(campus, watcher))


async def _told(campus: Campus, watcher: Watcher) -> AsyncIterator[str]:
    clock, shown, stale, look_at_s = asyncio.get_running_loop().time, "", True, 0.0
    while True:
        if stale and clock() >= look_at_s:
            found = _lately(campus).model_dump_json()
            stale, look_at_s = False, clock() + EVERY_S
            if found != shown:
                shown = found
                yield f"event: windows\ndata: {shown}\n\n"
        try:
            async with asyncio.timeout(max(0.0, look_at_s - clock()) if stale else QUIET_LIMIT_S):
                line = await watcher.next()
        except TimeoutError:
            if not stale:
                stale = True  # time has passed, and windows are shorter by that
                yield STILL_HERE
            continue
        if line is None:
            return
        stale = True
        for news in _news(campus, line):
            yield f"id: {news.seq}\nevent: news\ndata: {news.model_dump_json()}\n\n"


def _news(campus: Campus, line: LoggedDecision) -> Iterator[wire.WindowNews]:
    for reason in line.reasons:
        job = campus.state.jobs.get(JobId(reason.subject))
        if job is not None and job.spec.atomizable and reason.why in NEWS:
            yield wire.WindowNews(
                seq=line.seq,
                at=convert.shown_time(line.at_s),
                job_id=job.id,
                job_name=job.spec.name,
                code=reason.why.value,
                sentence=reason.sentence(),
            )


def _lately(campus: Campus) -> wire.WindowList:
    """The same for all who ask within a moment, however many those are: bids of a large campus take long."""
    now_s = asyncio.get_running_loop().time()
    return campus.windows.of(now_s, EVERY_S, partial(_as_they_are, campus))


def _as_they_are(campus: Campus) -> wire.WindowList:
    policy = campus.station.engine.policies.windows
    found = campus.station.engine.windows(campus.clock.now_s())
    return wire.WindowList(
        policy=None if policy is None else policy.name,
        turn_s=None if policy is None else [policy.bounds.least_s, policy.bounds.most_s],
        windows=[_shown(campus, one) for one in found],
    )


@router.patch("/jobs/{job_id}/windows")
async def change_bids(
    job_id: str, change: wishes.WindowsIn, campus: TheCampus, _caller: Admin
) -> jobs_wire.JobAnswer:
    """What is left out stays as it is."""
    job = find(campus, job_id)
    if job.phase.over:
        raise ApiError(409, "job_over", f"{job.id} is already {job.phase.value}", "it bids for nothing more")
    if not job.spec.atomizable:
        detail = f"{job.id} does not run in windows, so it bids for none"
        raise ApiError(409, "not_in_windows", detail, "hand it in with atomizable = true")
    try:
        wish = change.over(job.spec.windows)
    except ValidationError as error:
        said = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise ApiError(422, "no_window_left", said, "change both, or set one of them to null") from error
    outcome = await campus.loop.post(BidsChanged(job_id=job.id, windows=wish))
    return views.job_answer(campus, campus.state.jobs[job.id], outcome.commit.decision.reasons)


def _shown(campus: Campus, one: ShownWindow) -> wire.WindowOut:
    return wire.WindowOut(
        node_id=one.node_id,
        gpus=list(one.gpus),
        ends_at=convert.shown_time_or_none(one.ends_s),
        end=one.end.value,
        because=_because(one),
        job_id=one.tenant,
        job_name=_name(campus, one.tenant),
        turn_over_at=convert.shown_time_or_none(one.turn_over_s),
        next_job_id=one.promised,
        next_job_name=_name(campus, one.promised),
        bids=[
            wire.BidOut(
                job_id=bid.job_id,
                job_name=_name(campus, bid.job_id) or "",
                steps=bid.steps,
                useful_s=bid.useful_s,
                length_s=bid.length_s,
                vram_bytes=bid.vram_bytes,
                finishes=bid.finishes,
            )
            for bid in one.bids
        ],
        unused_because=one.unused_because or None,
    )


def _name(campus: Campus, job_id: JobId | None) -> str | None:
    job = None if job_id is None else campus.state.jobs.get(job_id)
    return None if job is None else job.spec.name


def _because(one: ShownWindow) -> str:
    if one.end is not WindowEnd.OPEN:
        return BECAUSE[one.end]
    if one.tenant is None:
        return FREE
    return OTHERS_BID if one.bids else BECAUSE[one.end]
