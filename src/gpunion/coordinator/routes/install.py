"""What a machine fetches before it is anybody here: the script that installs a node, and the package."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from fastapi import APIRouter, Response
from starlette.requests import Request

from gpunion.coordinator.gate import INSTALL_SCRIPT, INSTALLABLES
from gpunion.coordinator.problems import ApiError
from gpunion.coordinator.wheel import WHEEL_NAME, NoWheel, wheel

router = APIRouter(tags=["install"], include_in_schema=False)

SCRIPT = Path(__file__).parents[1] / "install.sh"
# It stands in a shell script: what no host is called does not get there.
HOST = re.compile(r"[A-Za-z0-9._-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")


@router.get(INSTALL_SCRIPT)
async def install_script(request: Request) -> Response:
    text = (
        SCRIPT.read_text(encoding="utf-8").replace("@URL@", own_url(request)).replace("@WHEEL@", WHEEL_NAME)
    )
    return Response(text, media_type="text/x-shellscript")


@router.get(f"{INSTALLABLES}{{name}}")
async def package(name: str) -> Response:
    if name != WHEEL_NAME:
        raise ApiError(404, "unknown_package", f"there is no {name} here", f"fetch {WHEEL_NAME}")
    try:
        content = await asyncio.to_thread(wheel)
    except NoWheel as trouble:
        next_step = "install the coordinator with pip, or the node by hand: pip install gpunion[agent,cli]"
        raise ApiError(404, "no_package", str(trouble), next_step) from trouble
    return Response(content, media_type="application/zip")


def own_url(request: Request) -> str:
    """As whoever asks has reached us: behind a proxy with TLS that says so."""
    host = request.headers.get("host", "")
    if HOST.fullmatch(host) is None:
        raise ApiError(400, "bad_host", "the request names no host", "fetch it by the coordinator's address")
    encrypted = request.headers.get("x-forwarded-proto") == "https" or request.url.scheme == "https"
    return f"{'https' if encrypted else 'http'}://{host}"
