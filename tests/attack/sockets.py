"""Each credential at each route that is a WebSocket, and hostile machines at the other end of a tunnel.

The routes are the application's own list, so a new one is attacked too.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from typing import Any

from starlette.routing import WebSocketRoute
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.sync.client import ClientConnection, connect

from gpunion.coordinator.app import make_app
from gpunion.tunnel.messages import Kind
from tests.attack.ground import Ground
from tests.attack.routes import PREFIX, STRANGE
from tests.attack.score import Score

OPEN_S = 30.0
# A node may open these; whatever it says there is its own.
OF_NODES = ("/api/v1/agent", "/api/v1/agent/tunnel")
TUNNEL = "/api/v1/agent/tunnel"
MESSAGES = 3_000
SEED = 5


def attack_sockets(ground: Ground, score: Score) -> None:
    before = ground.seen()
    paths = sorted(set(_paths(make_app().routes)))
    assert {*OF_NODES} <= {*paths}, paths
    for who, token, headers in _callers(ground):
        for path in paths:
            for url in _urls(ground, path):
                opened = _opens(ground, url, token, headers)
                score.attempt(who, f"socket {path}", refused=not opened)
                if opened and not (who.startswith("node") and path in OF_NODES):
                    score.got_through(who, f"socket {path}", f"{url[:100]} was opened")
    _flood_tunnels(ground, score)
    for harm in ground.harm_since(before):
        score.got_through("somebody", "socket", harm)


def _paths(routes: list[Any]) -> Iterator[str]:
    for route in routes:
        if isinstance(route, WebSocketRoute):
            yield PREFIX + route.path.removeprefix(PREFIX)
        elif hasattr(route, "original_router"):  # what was included
            yield from _paths(list(route.original_router.routes))


def _callers(ground: Ground) -> Iterator[tuple[str, str, dict[str, str]]]:
    yield "node with one guest", ground.evil.credential, {}
    yield "figures' token", ground.figures_token, {}
    yield "used join token", ground.used_token, {}
    yield "stranger", "", {}
    yield "stranger, guessing", "gpunion-admin-" + "A" * 43, {}
    # A page of any site, in the browser of somebody who has the token: a browser adds where it comes from.
    yield "page of a site", ground.scene.campus.token, {"Origin": "http://evil.example"}


def _urls(ground: Ground, path: str) -> Iterator[str]:
    names = [*ground.victims.values(), ground.evil.starts[0].job_id, "no-such", *STRANGE[:4]]
    for name in names if "{" in path else names[:1]:
        filled = path.replace("{name}", name).replace("{job_id}", name)
        for to in (
            ("", "?to=lab", "?to=port:22", "?to=terminal:24x80", "?to=../x") if "stream" in path else ("",)
        ):
            yield filled + to


def _opens(ground: Ground, url: str, token: str, headers: dict[str, str]) -> bool:
    if token:
        headers = {**headers, "Authorization": f"Bearer {token}"}
    try:
        with _dial(ground, url, headers):
            return True
    except (InvalidHandshake, OSError, TimeoutError):
        return False


def _dial(ground: Ground, url: str, headers: dict[str, str]) -> ClientConnection:
    return connect(
        ground.scene.campus.url.replace("http", "ws", 1) + url,
        additional_headers=headers,
        proxy=None,
        open_timeout=OPEN_S,
        close_timeout=1.0,
    )


def _flood_tunnels(ground: Ground, score: Score) -> None:
    """Words for streams that nobody opened, that are others', or that make no sense; many tunnels at once."""
    draw, who = random.Random(SEED), "node with one guest"
    headers = {"Authorization": f"Bearer {ground.evil.credential}"}
    until_s = time.monotonic() + 60.0
    said = 0
    while said < MESSAGES and time.monotonic() < until_s:
        try:
            with _dial(ground, TUNNEL, headers) as tunnel, _dial(ground, TUNNEL, headers) as other:
                for _ in range(200):
                    said += 1
                    draw.choice((tunnel, other)).send(_message(draw))
        except (WebSocketException, OSError):
            score.attempt(who, "socket tunnel", refused=True)
    score.tried[who, "socket tunnel"] += said
    slow = ground.answers_within(10.0)
    if slow:
        score.got_through(who, "socket tunnel", slow)


def _message(draw: random.Random) -> bytes:
    if draw.random() < 0.02:
        return draw.randbytes(draw.choice((0, 1, 4, 70_000)))
    stream = draw.choice((0, 1, 2, 3, 1000, 2**32 - 1))
    kinds = [kind for kind in Kind if kind is not Kind.OPEN or draw.random() < 0.05]
    body = draw.choice((b"", b"x", struct.pack(">I", 2**32 - 1), draw.randbytes(100), b"moving: \x1b[2J"))
    return struct.pack(">IB", stream, draw.choice(kinds)) + body
