"""What is answered at NAME.localhost by us: a page around the notebook that says how the session is. It has
no rights: it knows neither the coordinator's token nor its address. How the session is hears who has the
session's token: every user of this machine can ask."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpunion.cli.campus import Json
from gpunion.cli.sessions.forwarder import Page
from gpunion.cli.sessions.http_ends import header
from gpunion.cli.sessions.proving import PAGE, QUESTION, Proof
from gpunion.sdk.errors import ClientError

FOLDER = Path(__file__).with_name("page")
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
FRONT, STATE = "index.html", "state.json"
# The page may be open in several windows, each looking every second.
FRESH_S = 0.5
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; "
    b"img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

_NAME = re.compile(r"[a-z][a-z-]*\.(?:html|js|css)")


def has_front(folder: Path = FOLDER) -> bool:
    return (folder / FRONT).is_file()


class OwnPages:
    def __init__(self, state: Callable[[], Json], proof: Proof, folder: Path = FOLDER) -> None:
        """`state`: asks the coordinator how the session is; blocks."""
        self._ask = state
        self._proof = proof
        self._folder = folder
        self._known: tuple[float, Json] | None = None
        self._token = ""
        self._asking = asyncio.Lock()

    async def page(self, name: str, request: Any) -> Page | None:
        """BadPeer where a header is there twice."""
        name = name or FRONT
        if name == STATE:
            return await self._state_for(header(request, "authorization") or "")
        if name == PAGE:
            proof = self._proof.of(header(request, QUESTION) or "")
            return Page(200, "text/plain; charset=utf-8", proof.encode())
        if _NAME.fullmatch(name) is None:
            return None
        path = self._folder / name
        try:
            body = await asyncio.to_thread(path.read_bytes)
        except OSError:
            return None
        return Page(200, KINDS[path.suffix], body, ((b"content-security-policy", POLICY),))

    async def _state_for(self, authorization: str) -> Page:
        if not self._token:
            await self._state()
        # Where nobody could say yet what the token is, none is right.
        expected = f"token {self._token}".encode()
        if not self._token or not hmac.compare_digest(authorization.encode(), expected):
            return Page(401, "application/json", b'{"trouble": "this needs the session\'s token"}')
        return Page(200, "application/json", json.dumps(await self._state()).encode())

    async def _state(self) -> Json:
        """Without the token: whoever may see it has it from the address the page was opened with."""
        async with self._asking:
            if self._known is None or time.monotonic() - self._known[0] > FRESH_S:
                try:
                    found = await asyncio.to_thread(self._ask)
                    self._token = str(found.get("token") or "")
                except ClientError as trouble:
                    found = {"trouble": str(trouble)}
                self._known = time.monotonic(), {key: found[key] for key in found if key != "token"}
            return self._known[1]
