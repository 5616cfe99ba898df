"""The HTTP application, assembled from its routes. It needs a `Campus` to answer, none to be described."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from gpunion import __version__
from gpunion.coordinator.api import problems
from gpunion.coordinator.api.access import PROBLEMS
from gpunion.coordinator.api.gate import PREFIX, Gate
from gpunion.coordinator.routes import (
    events,
    hazard,
    images,
    jobs,
    logs,
    nodes,
    output,
    quotas,
    usage,
    vault,
    windows,
)
from gpunion.coordinator.routes import job_directories as trees
from gpunion.coordinator.routes import locations as places
from gpunion.coordinator.routes.for_nodes import agent, enrolment, tunnel
from gpunion.coordinator.routes.front import router as front_router
from gpunion.coordinator.routes.metrics import router as metrics_router
from gpunion.coordinator.routes.sessions import listing, streams
from gpunion.coordinator.services import Campus


def make_app(campus: Campus | None = None) -> FastAPI:
    app = FastAPI(
        title="GPUnion coordinator",
        version=__version__,
        summary="Lend idle GPUs across a campus without giving up ownership.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # the pages would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    api = APIRouter(prefix=PREFIX, responses=PROBLEMS)
    for module in (
        jobs, logs, output, trees, vault, places, images, nodes, hazard, quotas, usage, windows,
        enrolment, events, agent, tunnel, listing, streams,
    ):  # fmt: skip
        api.include_router(module.router)
    api.include_router(images.environments_router)
    app.include_router(api)
    app.include_router(front_router)
    app.include_router(metrics_router)
    problems.install(app)
    app.add_middleware(Gate)
    app.state.campus = campus
    return app
