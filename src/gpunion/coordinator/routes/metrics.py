"""Figures for Prometheus. Outside the API: the path and the format are those it asks for."""

from __future__ import annotations

from fastapi import APIRouter, Response

from gpunion.coordinator.api.access import TheCampus, Watcher
from gpunion.coordinator.api.problems import ApiError
from gpunion.ports.metrics import NoMetrics

router = APIRouter(tags=["metrics"], include_in_schema=False)


@router.get("/metrics")
async def metrics(campus: TheCampus, _caller: Watcher) -> Response:
    try:
        text = await campus.metrics.text()
    except NoMetrics as missing:
        raise ApiError(503, "no_metrics", str(missing), "install the package and start it again") from missing
    return Response(text, media_type=campus.metrics.media_type, headers={"Cache-Control": "no-store"})
