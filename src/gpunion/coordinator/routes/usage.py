"""`GET /usage`: what was lent and used, and what became of the work."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from gpunion.coordinator.api.access import Admin, TheCampus
from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.services import Campus
from gpunion.coordinator.usage.answers import gpus_answer, requests_answer, usage_answer
from gpunion.coordinator.usage.report import Asked
from gpunion.ports.usage_history import HistoryFault
from gpunion.wire.v1 import usage as wire

router = APIRouter(tags=["campus"])


@router.get("/usage")
async def usage(
    campus: TheCampus, _caller: Admin, query: Annotated[wire.UsageQuery, Query()]
) -> wire.UsageOut:
    asked = _asked(campus, query)
    remembered = await campus.usage.remembered(asked.since_s, asked.until_s)
    return usage_answer(campus.state, asked, remembered)


@router.get("/usage/requests")
async def past_requests(
    campus: TheCampus, _caller: Admin, query: Annotated[wire.UsageQuery, Query()]
) -> wire.PastRequestList:
    """What was asked for in that time, and what was there when it began; for running it again."""
    asked = _asked(campus, query)
    remembered = await campus.usage.remembered(asked.since_s, asked.until_s)
    return requests_answer(campus.state, asked, remembered.phases)


@router.get("/usage/gpus")
async def gpu_history(
    campus: TheCampus, _caller: Admin, query: Annotated[wire.GpuHistoryQuery, Query()]
) -> wire.GpuHistory:
    """How busy, full and hot GPUs were, as far as their figures were told."""
    now_s = campus.clock.now_s()
    try:
        past = await campus.usage.gpus(now_s - query.for_s, now_s, query.node, wire.POINTS_MOST)
    except HistoryFault as fault:
        raise ApiError(503, "no_history", str(fault), "look at the coordinator's disk: df -h") from fault
    return gpus_answer(past)


def _asked(campus: Campus, query: wire.UsageQuery) -> Asked:
    now_s = campus.clock.now_s()
    return Asked(since_s=now_s - query.for_s, until_s=now_s, lab=query.lab, user=query.user)
