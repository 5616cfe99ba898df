"""What every request passes first: who is it, and how much may it send. Nothing is open without a token.

As the outermost layer it holds for every route there is or will be, and for those there are not. The
exceptions are enrolment, whose join token is in the body, what a machine installs before it, and the page
for people who open the address in a browser.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpunion.coordinator import services as campus
from gpunion.coordinator.api.problems import ApiError, response_of
from gpunion.coordinator.requests.at_once import AtOnce, NotTaken, hurried
from gpunion.coordinator.requests.lines import LINE, Line
from gpunion.ports.database import Credential, CredentialKind
from gpunion.vault.job_directories import LIST_LIMIT_BYTES, STREAM_LIMIT_BYTES
from gpunion.wire.v1.images import PIECE_LIMIT_BYTES
from gpunion.wire.v1.vault import MANIFEST_LIMIT_BYTES, STORED_LIMIT_BYTES

PREFIX = "/api/v1"
OPEN = ("POST", f"{PREFIX}/enrol")
# A machine that is no node yet fetches these. They hold no secret: the package is the same for everybody.
INSTALL_SCRIPT, INSTALLABLES = "/install.sh", "/install/"
FRONT_PAGE = "/"
JSON_LIMIT_BYTES = 1024**2
# The longest that a node says is a list of 512 blocks; whoever watches says nothing.
NODE_JSON_LIMIT_BYTES = 64 * 1024
WATCHER_LIMIT_BYTES = 1024
ENROL_LIMIT_BYTES = 16 * 1024
# A refused sender gets this long and this much to finish, since most clients read the answer only then.
DRAIN_LIMIT_BYTES = 64 * 1024**2
CLOSES = (b"connection", b"close")
DRAIN_LIMIT_S = 10.0
# Requests of one node under way at a time: more than an agent has, less than there are threads for them.
OF_ONE_NODE = 8
LINES_OF_ONE_NODE = 128


class Gate:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._of_one_node = AtOnce(OF_ONE_NODE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            state = scope.setdefault("state", {})
            state["caller"] = caller = _caller(scope)
            line: Line | None = state.get(LINE)
            if line is not None and caller is not None:
                line.know(caller.name, LINES_OF_ONE_NODE if _is_node(caller) else None)
            if scope["type"] == "http":
                receive = _limited(scope, receive)
        except ApiError as error:
            await _refuse(error, scope, receive, send)
            return
        if scope["type"] == "http" and caller is not None and _is_node(caller):
            async with self._of_one_node.one_of(caller.name):
                with suppress(NotTaken):  # nobody is there to be told
                    await self._pass(line, scope, *hurried(receive, send))
        else:
            await self._pass(line, scope, receive, send)

    async def _pass(self, line: Line | None, scope: Scope, receive: Receive, send: Send) -> None:
        if line is not None:
            line.let_pass()
        await self._app(scope, receive, send)


def _is_node(caller: Credential) -> bool:
    return caller.kind is CredentialKind.NODE


def caller_of(connection: HTTPConnection) -> Credential:
    caller = connection.state.caller
    assert isinstance(caller, Credential)
    return caller


def _caller(scope: Scope) -> Credential | None:
    method, path = scope.get("method"), str(scope["path"])
    if (method, path) == OPEN:
        return None
    if method == "GET" and (path == INSTALL_SCRIPT or path.startswith(INSTALLABLES)):
        return None
    connection = HTTPConnection(scope)
    if method in ("GET", "HEAD") and path == FRONT_PAGE and wants_page(connection.headers.get("accept", "")):
        return None
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise _unauthenticated("this needs a token and none was given")
    caller = campus.of_connection(connection).keyring.who(token.strip())
    if caller is None:
        raise _unauthenticated("the token is not known here")
    return caller


def wants_page(accept: str) -> bool:
    """Whether a page is asked for by its name, as browsers do, and at least as much as JSON. Programs that
    take anything get what programs read."""
    wishes: dict[str, float] = {}
    for part in accept.split(","):
        kind, *details = (word.strip().lower() for word in part.split(";"))
        said = next((detail[2:] for detail in details if detail.startswith("q=")), "1")
        wishes[kind] = float(said) if re.fullmatch(r"[01](\.\d{0,3})?", said) else 0.0
    page = wishes.get("text/html", 0.0)
    return page > 0 and page >= wishes.get("application/json", 0.0)


def _unauthenticated(detail: str) -> ApiError:
    next_step = (
        "send 'Authorization: Bearer TOKEN'; the admin token is in the coordinator's DATA_DIR/admin.token, "
        "a node gets its own with `gpunion join`"
    )
    return ApiError(401, "unauthenticated", detail, next_step)


def _limited(scope: Scope, receive: Receive) -> Receive:
    """Refuses a body that is too large by what it says of itself, and else by counting."""
    limit = _limit_of(scope)
    said = HTTPConnection(scope).headers.get("content-length", "0")
    if said.isdigit() and int(said) > limit:
        raise _too_large(limit)
    seen = 0

    async def counting() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
        return message

    return counting


def _limit_of(scope: Scope) -> int:
    path = str(scope["path"])
    caller = scope["state"]["caller"]
    if caller is not None and caller.kind is CredentialKind.ADMIN:
        if path == f"{PREFIX}/blocks":
            return STREAM_LIMIT_BYTES
        if path.startswith(f"{PREFIX}/image-archives/"):
            return PIECE_LIMIT_BYTES
        if path.startswith(f"{PREFIX}/trees/"):
            return LIST_LIMIT_BYTES
    if caller is None:
        return ENROL_LIMIT_BYTES
    if _is_node(caller):
        return _limit_of_node(path)
    return WATCHER_LIMIT_BYTES if caller.kind is CredentialKind.METRICS else JSON_LIMIT_BYTES


def _limit_of_node(path: str) -> int:
    if path.startswith(f"{PREFIX}/vault/"):
        if path.endswith("/seal"):
            return MANIFEST_LIMIT_BYTES
        if "/blocks/" in path:
            return STORED_LIMIT_BYTES
    return JSON_LIMIT_BYTES if path.endswith("/log") else NODE_JSON_LIMIT_BYTES


def _too_large(limit: int) -> ApiError:
    detail = f"the body is larger than the {limit} bytes allowed here"
    return ApiError(413, "too_large", detail, "send less; data belongs into storage, not into a request")


async def _refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    response = response_of(error)
    if scope["type"] == "websocket":
        await receive()  # the connect message
        await response(scope, receive, send)
        return
    headers = response.raw_headers
    line: Line | None = scope["state"].get(LINE)
    if line is not None and _has_body(scope):
        headers = [*headers, CLOSES]  # where the next request would begin nobody knows
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_LIMIT_S):
            if line is None:
                await _drain(receive)
            elif _has_body(scope):
                await line.turn_away(_said_bytes(scope))
    await send({"type": "http.response.body", "body": b""})


def _has_body(scope: Scope) -> bool:
    headers = HTTPConnection(scope).headers
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _said_bytes(scope: Scope) -> int | None:
    said = HTTPConnection(scope).headers.get("content-length", "")
    return int(said) if said.isdigit() else None


async def _drain(receive: Receive) -> None:
    seen = 0
    while seen < DRAIN_LIMIT_BYTES:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            return
        seen += len(message["body"])
