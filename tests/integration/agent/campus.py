"""A coordinator in memory for one test: the real station behind a real WebSocket, and nothing else.

It can vanish and come back (`stop`, `start`) while keeping its memory, like one that was cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import replace

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import CheckpointWish, Job, JobSpec
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.jobs.run import Run
from gpunion.domain.protocol.commit import SavedCampus
from gpunion.domain.protocol.events import CoordinatorEvent, JobStopAsked, JobSubmitted
from gpunion.domain.protocol.frames import BusyGpus, GpuReadings
from gpunion.domain.resources import MIB, Request
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator.pure_coordinator import Posted, PureCoordinator
from gpunion.policy.policies import FIXED, Policies
from gpunion.vault.job_directories import frame
from gpunion.wire.agent_v1 import pack, unpack_from_agent
from tests.trees import SmallTree, a_tree

PATIENCE_S = 60.0
LOOK_S = 0.02

# Fast enough for a test, slow enough for a busy machine.
TIMING = Timing(
    heartbeat_s=0.2,
    lease_s=60.0,  # nobody is given up because the machine is busy
    grace_s=2.0,
    resend_s=1.0,
    own_save_patience_s=0.5,
    stop_grace_s=2.0,
    replan_s=0.5,
)


async def eventually(condition: Callable[[], object], what: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until_s:
            raise AssertionError(f"never happened: {what}")
        await asyncio.sleep(LOOK_S)


class TestCampus:
    __test__ = False

    def __init__(self, timing: Timing = TIMING, policies: Policies = FIXED) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.station = PureCoordinator(
            saved=SavedCampus(), policies=policies, timing=timing, term=1, now_s=time.monotonic()
        )
        self.trees: dict[str, bytes] = {}
        self.blocks: dict[str, bytes] = {}
        self.logs: dict[str, bytes] = {}
        self.story: list[str] = []
        self._sockets: dict[NodeId, WebSocket] = {}
        self._server: uvicorn.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # --- the coordinator's life ------------------------------------------------------------------

    async def start(self) -> None:
        routes = [
            WebSocketRoute("/api/v1/agent", self._agent),
            Route("/api/v1/enrol", self._enrol, methods=["POST"]),
            Route("/api/v1/trees/{digest}", self._tree),
            Route("/api/v1/blocks/fetch", self._blocks, methods=["POST"]),
            Route("/api/v1/agent/runs/{run_id}/log", self._log, methods=["POST"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), host="127.0.0.1", port=self.port, log_level="error", lifespan="off",
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._tasks = [asyncio.create_task(self._server.serve()), asyncio.create_task(self._tick())]
        await eventually(
            lambda: self._server is not None and self._server.started, "the test coordinator listens"
        )

    async def stop(self) -> None:
        assert self._server is not None
        self._server.should_exit = self._server.force_exit = True
        for node_socket in list(self._sockets.values()):
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await node_socket.close()
        await asyncio.wait([self._tasks[0]])
        self._tasks[1].cancel()
        self._server = None

    # --- what a user does ------------------------------------------------------------------------

    def submit(self, name: str, program: str, *, every_s: float = 0.5, **environment: str) -> JobId:
        spec = JobSpec(
            name=name,
            command=("python", "train.py"),
            owner="student",
            lab="beta",
            request=Request(gpus=1, cpus=0.5, memory_bytes=64 * MIB),
            environment=tuple(sorted(environment.items())),
            bundle=self.serve(a_tree({"train.py": program.encode()})),
            checkpoint=CheckpointWish(max_interval_s=every_s),
        )
        return self.submit_spec(name, spec)

    def submit_spec(self, name: str, spec: JobSpec, profile: Profile | None = None) -> JobId:
        """`profile`: what was learned of it before."""
        job_id = JobId(name)
        self._post(JobSubmitted(job_id=job_id, spec=spec))
        if profile is not None:
            self.station.engine.state.jobs[job_id] = replace(self.job(job_id), profile=profile)
        return job_id

    def stop_job(self, job_id: JobId) -> None:
        self._post(JobStopAsked(job_id=job_id))

    def job(self, job_id: JobId) -> Job:
        return self.station.engine.state.jobs[job_id]

    def runs(self, job_id: JobId) -> list[Run]:
        return sorted(
            (r for r in self.station.engine.state.runs.values() if r.job_id == job_id), key=lambda r: r.epoch
        )

    def step(self, job_id: JobId) -> int:
        durable = self.job(job_id).durable
        return 0 if durable is None else durable.step

    # --- private ---------------------------------------------------------------------------------

    def serve(self, tree: SmallTree) -> str:
        self.trees[tree.digest] = tree.listing
        self.blocks |= tree.blocks
        return tree.digest

    def _post(self, event: CoordinatorEvent) -> None:
        self._commit([(event, None)])

    def _commit(self, posted: list[Posted]) -> None:
        for event, mark in posted:
            commit = self.station.decide(time.monotonic(), event, mark)
            self.station.committed(commit)
            self.story += [f"{reason.subject}: {reason.sentence()}" for reason in commit.decision.reasons]

    async def _tick(self) -> None:
        while True:
            while (due := self.station.due(time.monotonic())) is not None:
                self._commit([(due, None)])
            for node_id in list(self._sockets):
                await self._flush(node_id)
            await asyncio.sleep(LOOK_S)

    async def _flush(self, node_id: NodeId) -> None:
        node_socket = self._sockets.get(node_id)
        if node_socket is not None:
            for frame in list(self.station.outgoing(time.monotonic(), node_id)):
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                    await node_socket.send_bytes(pack(frame))

    async def _agent(self, node_socket: WebSocket) -> None:
        _, _, name = node_socket.headers["authorization"].partition("secret-of-")
        if not name:
            await node_socket.send_denial_response(Response(status_code=401))
            return
        node_id = NodeId(name)
        await node_socket.accept()
        self._sockets[node_id] = node_socket
        try:
            while True:
                frame = unpack_from_agent(await node_socket.receive_bytes())
                if isinstance(frame, GpuReadings | BusyGpus):
                    continue
                self._commit(self.station.frame_arrived(time.monotonic(), node_id, frame))
                await self._flush(node_id)
        except WebSocketDisconnect:
            pass
        finally:
            if self._sockets.get(node_id) is node_socket:
                del self._sockets[node_id]
                self.station.disconnected(node_id)

    async def _enrol(self, request: HttpRequest) -> JSONResponse:
        body = await request.json()
        if body["join_token"] != "once":
            problem = {"detail": "the join token is unknown", "next_step": "ask for a new one"}
            return JSONResponse(problem, status_code=403)
        return JSONResponse(
            {"node_id": body["node_name"], "credential": f"secret-of-{body['node_name']}"}, 201
        )

    async def _tree(self, request: HttpRequest) -> Response:
        data = self.trees.get(request.path_params["digest"])
        return Response(status_code=404) if data is None else Response(data)

    async def _blocks(self, request: HttpRequest) -> Response:
        names = (await request.json())["blocks"]
        return Response(b"".join(frame(self.blocks[name], name) for name in names if name in self.blocks))

    async def _log(self, request: HttpRequest) -> JSONResponse:
        run_id, offset = request.path_params["run_id"], int(request.query_params["offset"])
        have = self.logs.get(run_id, b"")
        if offset <= len(have):
            have = self.logs[run_id] = have[:offset] + await request.body()
        return JSONResponse({"next_offset": len(have)})
