"""The HTTP application, assembled from its routes. It needs a `Campus` to answer, none to be described."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from gpunion import __version__
from gpunion.coordinator import problems
from gpunion.coordinator.campus import Campus
from gpunion.coordinator.gate import PREFIX, Gate
from gpunion.coordinator.routes import (
    agent,
    enrolment,
    events,
    hazard,
    images,
    jobs,
    logs,
    nodes,
    output,
    places,
    quotas,
    trees,
    vault,
)
from gpunion.coordinator.routes.access import PROBLEMS
from gpunion.coordinator.routes.front import router as front_router
from gpunion.coordinator.routes.install import router as install_router


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
        jobs, logs, output, trees, vault, places, images, nodes, hazard, quotas, enrolment, events, agent,
    ):  # fmt: skip
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(install_router)
    app.include_router(front_router)
    problems.install(app)
    app.add_middleware(Gate)
    app.state.campus = campus
    return app
