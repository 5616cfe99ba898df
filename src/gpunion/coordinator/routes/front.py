"""What a person sees who opens the coordinator's address in a browser: no secret, no script."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import re
from pathlib import Path

from fastapi import APIRouter, Response
from starlette.requests import Request
from starlette.responses import JSONResponse

from gpunion import __version__
from gpunion.coordinator.api.gate import FRONT_PAGE, INSTALL_SCRIPT, INSTALLABLES, PREFIX, wants_page
from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.wheel import WHEEL_NAME, NoWheel, wheel

router = APIRouter(tags=["front"], include_in_schema=False)

PAGE = (Path(__file__).parents[1] / "front.html").read_text(encoding="utf-8")
_STYLE = re.findall("<style>(.*?)</style>", PAGE, re.DOTALL)[0]
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "Cache-Control": "no-cache",  # kept, but asked about each time: its commands change with an upgrade
    "Vary": "Accept, X-Forwarded-Proto",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@router.api_route(FRONT_PAGE, methods=["GET", "HEAD"])
async def front(request: Request) -> Response:
    url = own_url(request)
    if not wants_page(request.headers.get("accept", "")):
        # Who is no browser has shown a token to get here.
        about = {"name": "gpunion", "version": __version__, "api": f"{url}{PREFIX}"}
        return JSONResponse({**about, "schema": f"{url}{PREFIX}/openapi.json"}, headers={"Vary": "Accept"})
    text = PAGE.replace("@URL@", html.escape(url)).replace("@WHEEL@", html.escape(WHEEL_NAME)).encode()
    mark = f'"{hashlib.sha256(text).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": mark}
    if mark in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(text, headers=headers, media_type="text/html; charset=utf-8")


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
