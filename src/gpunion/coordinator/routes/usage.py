"""`GET /usage`: what was lent and used, and what became of the work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, ParamSpec

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from gpunion.coordinator.api.access import Admin, TheCampus
from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.services import Campus
from gpunion.coordinator.usage.answers import gpus_answer, readable, requests_answer, usage_answer
from gpunion.coordinator.usage.report import Asked
from gpunion.ports.usage_history import HistoryFault
from gpunion.wire.v1 import usage as wire

P = ParamSpec("P")

router = APIRouter(tags=["campus"])


@router.get("/usage", response_model=wire.UsageOut)
async def usage(campus: TheCampus, _caller: Admin, query: Annotated[wire.UsageQuery, Query()]) -> Response:
    asked = _asked(campus, query)
    remembered = await campus.usage.remembered(asked.since_s, asked.until_s)
    return await _beside(usage_answer, readable(campus.state), asked, remembered)


@router.get("/usage/requests", response_model=wire.PastRequestList)
async def past_requests(
    campus: TheCampus, _caller: Admin, query: Annotated[wire.UsageQuery, Query()]
) -> Response:
    """What was asked for in that time, and what was there when it began; for running it again."""
    asked = _asked(campus, query)
    remembered = await campus.usage.remembered(asked.since_s, asked.until_s)
    return await _beside(requests_answer, readable(campus.state), asked, remembered.phases)


@router.get("/usage/gpus", response_model=wire.GpuHistory)
async def gpu_history(
    campus: TheCampus, _caller: Admin, query: Annotated[wire.GpuHistoryQuery, Query()]
) -> Response:
    """How busy, full and hot GPUs were, as far as their figures were told."""
    now_s = campus.clock.now_s()
    try:
        past = await campus.usage.gpus(now_s - query.for_s, now_s, query.node, wire.POINTS_MOST)
    except HistoryFault as fault:
        raise ApiError(
            503, "no_history", str(fault), "gpunion usage says what to do about it; jobs go on"
        ) from fault
    return await _beside(gpus_answer, past)


async def _beside(answer: Callable[P, BaseModel], *told: P.args, **named: P.kwargs) -> Response:
    """Made and written down in a thread: fifty thousand of anything keep the loop from its agents for a
    second. What it is made of must not change meanwhile."""

    def text() -> str:
        return answer(*told, **named).model_dump_json()

    return Response(await asyncio.to_thread(text), media_type="application/json")


def _asked(campus: Campus, query: wire.UsageQuery) -> Asked:
    now_s = campus.clock.now_s()
    return Asked(since_s=now_s - query.for_s, until_s=now_s, lab=query.lab, user=query.user)
