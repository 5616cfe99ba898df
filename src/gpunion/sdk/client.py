"""A client of the coordinator that waits for its answers. Answers are the API's own objects, as dicts.

    with Client("http://127.0.0.1:8765", token) as client:
        job = client.submit({"name": "train", "command": ["python", "train.py"]})["job"]
        for event in client.events(since=0):
            ...

Requests that change nothing are tried again when the connection breaks; a submission too, since it carries an
idempotency key.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from gpunion.sdk.environments import EnvironmentCalls
from gpunion.sdk.errors import ApiProblem, NotACoordinator, Unreachable
from gpunion.sdk.images import ImageCalls
from gpunion.sdk.job_directories import TreeCalls
from gpunion.sdk.sessions import SessionCalls

PREFIX = "/api/v1"
TIMEOUT_S = 30.0
# An event stream says something at least every 15 s; twice that is silence.
QUIET_LIMIT_S = 35.0
# The coordinator may be restarting; a second or two is what that takes.
RETRY_PAUSES_S = (0.2, 0.8, 2.0)
SILENT_TRIES = 1  # after so many it is no hiccup any more, and whoever waits is told
RECONNECT_S = 1.0

Answer = dict[str, Any]


class Client(ImageCalls, EnvironmentCalls, SessionCalls, TreeCalls):
    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
        on_wait: Callable[[str], None] = lambda words: None,
    ) -> None:
        """`on_wait` hears why a request takes longer, where it is tried for more than a moment."""
        self.url = url.rstrip("/")
        self._on_wait = on_wait
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # The environment's proxies are for the world outside; a coordinator is on the campus.
        self._http = httpx.Client(
            base_url=self.url + PREFIX,
            headers=headers,
            timeout=timeout_s,
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # --- jobs ------------------------------------------------------------------------------------

    def submit(self, job: Mapping[str, Any], *, idempotency_key: str | None = None) -> Answer:
        """{job, reasons, verdicts}. ApiProblem `impossible` has the verdicts of every node."""
        headers = {"Idempotency-Key": idempotency_key or os.urandom(16).hex()}
        return self._ask("POST", "/jobs", json=dict(job), headers=headers, again=True)

    def jobs(
        self,
        *,
        phases: Sequence[str] = (),
        nodes: Sequence[str] = (),
        oldest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Answer:
        """One page, {jobs, next_cursor, total}, newest first; `nodes`: those with a guest there."""
        asked: dict[str, Any] = {"phase": list(phases), "node": list(nodes), "limit": limit, "cursor": cursor}
        if oldest_first:
            asked["order"] = "oldest"
        return self._get("/jobs", {name: value for name, value in asked.items() if value})

    def all_jobs(self, *, phases: Sequence[str] = ()) -> Iterator[Answer]:
        cursor = None
        while True:
            page = self.jobs(phases=phases, cursor=cursor)
            yield from page["jobs"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def job(self, job_id: str) -> Answer:
        return self._get(f"/jobs/{_part(job_id)}")

    def why(self, job_id: str) -> Answer:
        return self._get(f"/jobs/{_part(job_id)}/why")

    def stop(self, job_id: str) -> Answer:
        return self._ask("POST", f"/jobs/{_part(job_id)}/stop")

    def change_bids(self, job_id: str, windows: Mapping[str, Any]) -> Answer:
        """{job, reasons, verdicts}: what it bids for from its next window on; what is left out stays."""
        return self._ask("PATCH", f"/jobs/{_part(job_id)}/windows", json=dict(windows))

    def checkpoints(self, job_id: str) -> list[Answer]:
        found: list[Answer] = self._get(f"/jobs/{_part(job_id)}/checkpoints")["checkpoints"]
        return found

    def logs(self, job_id: str, *, offset: int = 0, limit: int | None = None) -> Answer:
        """{text, next_offset, over}: go on from `next_offset` until `over`."""
        asked = {"offset": offset} if limit is None else {"offset": offset, "limit": limit}
        return self._get(f"/jobs/{_part(job_id)}/logs", asked)

    # --- nodes and the campus --------------------------------------------------------------------

    def places(self) -> Answer:
        """Where checkpoints can be kept."""
        return self._ask("GET", "/places", again=True)

    def accept_place(self, name: str) -> Answer:
        """Take a folder that lacks its mark as it is now."""
        return self._ask("POST", f"/places/{_part(name)}/accept")

    def nodes(self, *, all: bool = False) -> list[Answer]:
        """`all`: those too that left more than a day ago."""
        found: list[Answer] = self._get("/nodes", {"all": all} if all else None)["nodes"]
        return found

    def remove_node(self, node_id: str) -> Answer:
        """Off the list. ApiProblem `node_in_use` where it is joined, or something may still run there."""
        return self._ask("DELETE", f"/nodes/{_part(node_id)}")

    def accept_node(self, node_id: str) -> Answer:
        """Give guests and leases again to one that was isolated."""
        return self._ask("POST", f"/nodes/{_part(node_id)}/accept")

    def free(self) -> Answer:
        """{nodes, waiting}: what anybody could have now."""
        return self._get("/free")

    def node(self, node_id: str) -> Answer:
        return self._get(f"/nodes/{_part(node_id)}")

    def hazard(self) -> Answer:
        """When machines are expected to be wanted back: {learns, nodes, calibration, ...}."""
        return self._get("/hazard")

    def node_hazard(self, node_id: str) -> Answer:
        return self._get(f"/nodes/{_part(node_id)}/hazard")

    def windows(self) -> Answer:
        """{policy, turn_s, windows}: which windows there are, who has them, and who bids for them."""
        return self._get("/windows")

    def quotas(self) -> Answer:
        """{quotas, accounts, half_life_s}: who may hold how many GPUs, holds, has used and has lent."""
        return self._get("/quotas")

    def set_quota(self, name: str, gpus: int, *, priority: str | None = None) -> Answer:
        """`name`: user:NAME, lab:NAME, or user:* and lab:* for all others. `priority`: high, to count jobs of
        that class alone."""
        asked = {} if priority is None else {"priority": priority}
        return self._ask("PUT", f"/quotas/{_part(name)}", json={"gpus": gpus}, params=asked, again=True)

    def lift_quota(self, name: str, *, priority: str | None = None) -> Answer:
        asked = {} if priority is None else {"priority": priority}
        return self._ask("DELETE", f"/quotas/{_part(name)}", params=asked)

    def usage(self, *, for_s: float, lab: str | None = None, user: str | None = None) -> Answer:
        """{people, labs, interruptions, ...}: who lent and used how much in the last `for_s` seconds."""
        asked = {"for_s": for_s, "lab": lab, "user": user}
        return self._get("/usage", {name: value for name, value in asked.items() if value is not None})

    def past_requests(self, *, for_s: float) -> Answer:
        """{requests, length_s, ...}: what was asked for lately, and how long it waited."""
        return self._get("/usage/requests", {"for_s": for_s})

    def gpu_history(self, *, for_s: float, node: str | None = None) -> Answer:
        """{gpus: [{node, index, points, ...}], ...}: how busy, full and hot GPUs were."""
        asked = {"for_s": for_s} if node is None else {"for_s": for_s, "node": node}
        return self._get("/usage/gpus", asked)

    def campus(self) -> Answer:
        return self._get("/campus")

    def audit(self) -> Answer:
        return self._get("/audit")

    def make_join_token(self, *, expires_in_s: float = 3600.0) -> Answer:
        return self._ask("POST", "/join-tokens", json={"expires_in_s": expires_in_s})

    def enrol(self, join_token: str, node_name: str, lab: str = "") -> Answer:
        """{node_id, credential, fingerprint, vault, timing}. The client needs no token for it."""
        body = {"join_token": join_token, "node_name": node_name, "lab": lab}
        return self._ask("POST", "/enrol", json=body)

    def push_log(self, run_id: str, offset: int, data: bytes, *, end: bool = False) -> int:
        """For agents. Returns the next byte wanted, also where something in between is missing."""
        path = f"/agent/runs/{_part(run_id)}/log"
        params = {"offset": offset} | ({"end": "true"} if end else {})
        try:
            answer = self._ask("POST", path, params=params, content=data, again=True)
        except ApiProblem as problem:
            if problem.code != "log_gap":
                raise
            return int(problem.body["next_offset"])
        return int(answer["next_offset"])

    # --- events ----------------------------------------------------------------------------------

    def events(self, since: int | None = None, *, reconnect: bool = True) -> Generator[Answer, None, None]:
        """Decisions as they are committed, each with its `seq`. Goes on by itself when the stream breaks."""
        last = since
        while True:
            try:
                for event in self._stream(last):
                    last = event["seq"]
                    yield event
            except httpx.HTTPError as error:
                if not reconnect:
                    raise Unreachable(self.url, _cause(error)) from error
            except ApiProblem as problem:
                if not reconnect or problem.status != 503:
                    raise
            if not reconnect:
                return
            time.sleep(RECONNECT_S)

    def window_events(self) -> Iterator[tuple[str, Answer]]:
        """`windows`: what `windows()` answers, whenever that has changed; `news`: {seq, at, job_id, job_name,
        code, sentence}, who got one and what came of it. Ends when the stream breaks."""
        return self._told("/windows/events", {})

    def _stream(self, since: int | None) -> Iterator[Answer]:
        asked = {} if since is None else {"since": since}
        for _, told in self._told("/events", asked):
            yield told

    def _told(self, path: str, asked: Mapping[str, Any]) -> Iterator[tuple[str, Answer]]:
        timeout = httpx.Timeout(TIMEOUT_S, read=QUIET_LIMIT_S)
        name = ""
        with self._http.stream("GET", path, params=asked, timeout=timeout) as response:
            if response.status_code != 200:
                response.read()
                raise self._problem(response)
            for line in response.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

    # --- private ---------------------------------------------------------------------------------

    def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Answer:
        return self._ask("GET", path, params=params, again=True)

    def _ask(self, method: str, path: str, **request: Any) -> Answer:
        response = self._send(method, path, **request)
        try:
            answer = response.json()
        except ValueError as error:
            raise NotACoordinator(self.url, response.status_code) from error
        if not isinstance(answer, dict):
            raise NotACoordinator(self.url, response.status_code)
        return answer

    def _send(self, method: str, path: str, *, again: bool = False, **request: Any) -> httpx.Response:
        pauses = RETRY_PAUSES_S if again else ()
        for tries, pause_s in enumerate((*pauses, None)):
            trouble = "it says that it cannot now"
            try:
                response = self._http.request(method, path, **request)
            except httpx.HTTPError as error:
                if pause_s is None:
                    raise Unreachable(self.url, _cause(error)) from error
                trouble = _cause(error)
            except httpx.InvalidURL as error:
                raise Unreachable(self.url, str(error)) from error
            else:
                if response.is_success:
                    return response
                if response.status_code != 503 or pause_s is None:
                    raise self._problem(response)
            if tries == SILENT_TRIES:
                self._on_wait(f"the coordinator at {self.url} does not answer ({trouble}); trying again")
            time.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _streamed(self, method: str, path: str, **request: Any) -> Iterator[Iterator[bytes]]:
        try:
            with self._http.stream(method, path, **request) as response:
                if not response.is_success:
                    response.read()
                    raise self._problem(response)
                yield response.iter_bytes()
        except httpx.HTTPError as error:
            raise Unreachable(self.url, _cause(error)) from error

    def _problem(self, response: httpx.Response) -> ApiProblem | NotACoordinator:
        try:
            body = response.json()
            return ApiProblem(
                code=body["code"],
                title=body["title"],
                detail=body["detail"],
                next_step=body["next_step"],
                status=response.status_code,
                body=body,
            )
        except (ValueError, KeyError, TypeError):
            return NotACoordinator(self.url, response.status_code)


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def _part(name: str) -> str:
    """One part of a path, whatever somebody typed."""
    return quote(name, safe="")
