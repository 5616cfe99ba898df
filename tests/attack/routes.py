"""Each credential at each route. The routes are the coordinator's own list, so a new one is attacked too."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import quote

import httpx

from tests.attack.ground import FAR_STEP, SECRET, Ground
from tests.attack.score import Score

PREFIX = "/api/v1"
TIMEOUT_S = 30.0
MOST = 10_000
# What no hostile caller has a use for: they take the place of an id in a path.
STRANGE = ("..%2f..%2fetc%2fpasswd", "%00", "%e2%80%ae", "-1", "a" * 900, "%2e%2e", "x%0d%0aX-A: b", "1;drop")
ZEROS = "0" * 64


def attack_routes(ground: Ground, score: Score, *, every: int = 1) -> None:
    """`every`: only each n-th route, another for each caller."""
    with httpx.Client(base_url=ground.scene.campus.url, timeout=TIMEOUT_S, trust_env=False) as http:
        routes = list(_routes(http, ground))
        before = ground.seen()
        for number, (who, token, tries, look_every) in enumerate(_callers(ground)):
            for done, (method, path) in enumerate(routes[number % every :: every], start=1):
                what = f"route {method} {path}"
                for url, sent in islice(_requests(ground, path), tries):
                    _try(http, score, who, what, token, method, url, sent)
                if "node" in who:
                    _stay(ground)
                if done % look_every:
                    continue
                for harm in ground.harm_since(before):
                    score.got_through(who, f"{what} or one of the {look_every - 1} before it", harm)
                    before = ground.seen()
        for harm in ground.harm_since(before):
            score.got_through("somebody", "route of the last", harm)


def _routes(http: httpx.Client, ground: Ground) -> Iterator[tuple[str, str]]:
    headers = {"Authorization": f"Bearer {ground.scene.campus.token}"}
    listed = http.get(f"{PREFIX}/openapi.json", headers=headers).json()["paths"]
    # After a farewell a caller is another kind of caller.
    for path, methods in sorted(listed.items(), key=lambda row: row[0].endswith("farewell")):
        for method in sorted({*methods} & {"get", "put", "post", "delete", "patch"}):
            yield method.upper(), path


def _callers(ground: Ground) -> Iterator[tuple[str, str, int, int]]:
    """Their credential, how many requests of a route, and after how many routes to look what they did."""
    with ground.scene.campus.client() as client:
        unused = client.make_join_token()["join_token"]
    yield "node with one guest", ground.evil.credential, MOST, 3
    yield "former node", ground.former.credential, MOST, 3
    yield "node that left", ground.left.credential, MOST, 4
    yield "join token", unused, 10, 10
    yield "figures' token", ground.figures_token, 10, 10
    yield "used join token", ground.used_token, 10, 10
    yield "stranger", "", 10, 10
    yield "stranger, guessing", "gpunion-admin-" + "A" * 43, 4, 20
    yield "stranger, odd header", "x" * 300, 4, 20


def _stay(ground: Ground) -> None:
    """Heard of, so that its guest is its own still."""
    for hostile in (ground.evil, ground.former):
        if not hostile.is_heard():
            hostile.connect()
    ground.accept_all()


def _requests(ground: Ground, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """With each victim's id, some of one's own and some that are nobody's, and each body that may fit."""
    names = re.findall(r"{(\w+)}", path)
    bodies = list(_bodies(ground, path))
    for number, job_id in enumerate(_jobs(ground)):
        values = {name: _value(ground, name, job_id, number) for name in names}
        url = path
        for name, value in values.items():
            url = url.replace(f"{{{name}}}", value)
        for body in bodies if names or number == 0 else ():
            yield url, body
        if not names:
            return
    for strange in STRANGE:
        yield re.sub(r"{\w+}", strange, path), bodies[0]


def _jobs(ground: Ground) -> list[str]:
    return [*ground.victims.values(), ground.evil.starts[0].job_id, "no-such-job"]


def _value(ground: Ground, name: str, job_id: str, number: int) -> str:
    match name:
        case "job_id":
            return job_id
        case "run_id":
            return f"{job_id}-e{1 if number < 2 else 2}"
        case "node_id":
            return ("a", "b", "c", "evil", "former")[number]
        case "name" | "digest" | "image":
            return (ground.a_block(), ZEROS, "user:student", "place", ZEROS)[number]
        case "hold":
            return "0" * 32
        case _:
            return quote(job_id)


def _bodies(ground: Ground, path: str) -> Iterator[dict[str, Any]]:
    """As keywords of the request."""
    yield {}
    if not any(
        word in path for word in ("{", "join", "jobs", "quotas", "places", "images", "enrol", "farewell")
    ):
        yield {"json": {}}
        return
    yield {"json": _everything(ground)}
    yield {"content": b"\xff" * 2000, "headers": {"Idempotency-Key": "key-1"}}
    if "log" in path:
        yield {"content": SECRET.encode(), "params": {"offset": 0}}
        yield {"content": SECRET.encode(), "params": {"offset": -1}}
    if "begin" in path:
        yield from ({"json": {"epoch": epoch}} for epoch in (0, 1, 2, 3, 999, 10**9, 10**15, 2**63, -1))
    if "forget" in path:
        yield from ({"json": {"keep": keep}} for keep in (0, 2, 3, -1))
    if "holds" in path or "checkpoint" in path:
        yield {"json": {"checkpoint_id": f"{ground.victims['victim']}-e1-c1"}}
    if "seal" in path:
        yield from ({"content": manifest} for manifest in _manifests(ground, path))
    if "quotas" in path:
        yield {"json": {"gpus": 0}}
    if "nodes" in path:
        yield {"json": {"because": "x"}}


def _manifests(ground: Ground, path: str) -> Iterator[bytes]:
    """Whole and sound, with another's content: for each job, of each epoch, by each way of naming them."""
    for (name, job_id), epoch in itertools.product(ground.victims.items(), (1, 2, 3)):
        for suffix in ("c999", "a1", "output", "c2"):
            far = FAR_STEP if name != "moved" else FAR_STEP + 1
            checkpoint_id = f"{job_id}-e{epoch}-{suffix}"
            if suffix == "output":
                checkpoint_id = f"{job_id}-e{epoch}-output"
            yield ground.forged(job_id, checkpoint_id=checkpoint_id, epoch=epoch, step=far)
    yield b"[" * 60_000
    yield json.dumps({"files": [{}] * 50_000}).encode()


def _everything(ground: Ground) -> dict[str, Any]:
    """Every field that any body has, so that a strict reader refuses it and a lax one acts on it."""
    victim = ground.victims["victim"]
    return {"epoch": 10**6, "keep": 2, "gpus": 0, "job_id": victim, "checkpoint_id": f"{victim}-e1-c1"}


def _try(
    http: httpx.Client,
    score: Score,
    who: str,
    what: str,
    token: str,
    method: str,
    url: str,
    sent: dict[str, Any],
) -> None:
    sent = dict(sent)
    headers = {**sent.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        with http.stream(method, url, headers=headers, **sent) as response:
            status = response.status_code
            body = next(response.iter_bytes(65536), b"") if status < 500 else b""
    except httpx.HTTPError:
        score.attempt(who, what, refused=True)
        return
    score.attempt(who, what, refused=status >= 400)
    if status >= 500 and status not in (501, 503, 507):
        score.got_through(who, what, f"{url[:120]} was answered {status}")
    if status < 400 and SECRET.encode() in body:
        score.got_through(who, what, f"{url[:120]} gave away what is another's")
