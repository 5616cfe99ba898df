"""A real coordinator process on loopback, and a node that says what a test wants it to say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.frames import CoordinatorFrame, FromAgent, Hello
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.sdk.client import Client
from gpunion.wire.agent_v1 import pack, unpack_from_coordinator
from tests.services import ANSWER_LIMIT_S

SOURCE = Path(__file__).resolve().parents[3] / "src"
# Far longer than a start takes on a slow machine; only a broken start waits for it.
START_LIMIT_S = 60.0
# Its nodes say only what a test has them say, and are not to fall silent while a busy machine takes its time.
SLOW_TO_SUSPECT = {
    "GPUNION_COORDINATOR_TIMING_HEARTBEAT_S": "200",
    "GPUNION_COORDINATOR_TIMING_LEASE_S": "600",
}


@dataclass
class Coordinator:
    """Started by hand, so that tests can start it again on the same data."""

    data_dir: Path
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    by_way_of: tuple[str, ...] = ()  # a command that becomes it

    def spawn(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-m", "gpunion.coordinator", "--data-dir", str(self.data_dir)]
        command = [*self.by_way_of, *program]
        settings = {
            "GPUNION_COORDINATOR_PORT": "0",
            "GPUNION_COORDINATOR_STRICT_AUDIT": "true",
            **SLOW_TO_SUSPECT,
            **self.environment,
            **environment,
        }
        return subprocess.Popen(
            [*command, *arguments],
            env={**os.environ, "PYTHONPATH": str(SOURCE), **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start(self, *arguments: str, **environment: str) -> Coordinator:
        (self.data_dir / "address").unlink(missing_ok=True)
        self.process = self.spawn(*arguments, **environment)
        limit = time.monotonic() + START_LIMIT_S
        while not (self.data_dir / "address").exists():
            if self.process.poll() is not None:
                raise AssertionError(f"it ended at once: {self.process.communicate()}")
            if time.monotonic() > limit:
                raise AssertionError("it does not listen")
            time.sleep(0.02)
        return self

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        assert self.process is not None
        self.process.send_signal(how)
        return self.ended()

    def ended(self) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        assert self.process is not None
        out, err = self.process.communicate(timeout=START_LIMIT_S)
        code, self.process = self.process.returncode, None
        return code, out, err

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    @property
    def url(self) -> str:
        return (self.data_dir / "address").read_text().strip()

    @property
    def token(self) -> str:
        return (self.data_dir / "admin.token").read_text().strip()

    def client(self, token: str | None = None) -> Client:
        return Client(self.url, token or self.token)

    def enrol(self, name: str = "alpha", lab: str = "lab-a") -> tuple[str, str]:
        with self.client() as client:
            join_token = client.make_join_token()["join_token"]
            given = client.enrol(join_token, name, lab)
        return given["node_id"], given["credential"]

    @contextmanager
    def connection(self, credential: str) -> Iterator[ClientConnection]:
        url = self.url.replace("http", "ws", 1) + "/api/v1/agent"
        headers = {"Authorization": f"Bearer {credential}"}
        with connect(
            url, additional_headers=headers, proxy=None, max_size=None, open_timeout=ANSWER_LIMIT_S
        ) as socket:
            yield socket

    @contextmanager
    def node(self, name: str = "alpha", lab: str = "lab-a", **facts: Any) -> Iterator[FakeNode]:
        """A node that has said hello and been welcomed."""
        node_id, credential = self.enrol(name, lab)
        with self.connection(credential) as socket:
            node = FakeNode(node_id, credential, socket)
            node.send(node.hello(**facts))
            node.receive()
            yield node


@dataclass
class FakeNode:
    node_id: str
    credential: str
    socket: ClientConnection

    def hello(self, **changes: Any) -> Hello:
        gpus = changes.pop("gpus", 1)
        models = tuple(
            Gpu(index=number, model="A100", memory_bytes=40 * GIB, compute_capability="8.0")
            for number in range(gpus)
        )
        capacity = Capacity(gpus=models, cpus=8.0, memory_bytes=64 * GIB, uplink_bps=1e9)
        defaults: dict[str, Any] = {
            "node_id": NodeId(self.node_id),
            "incarnation": "i1",
            "facts": NodeFacts(lab="lab-a", capacity=capacity),
            "guests": (),
            "ack": 0,
            "sent_s": 0.0,
        }
        return Hello(**{**defaults, **changes})

    def send(self, frame: FromAgent) -> None:
        self.socket.send(pack(frame))

    def receive(self) -> CoordinatorFrame:
        return unpack_from_coordinator(self.socket.recv(timeout=ANSWER_LIMIT_S))

    def receive_a(self, kind: type) -> Any:
        """The next frame of this kind; others may come in between."""
        while True:
            frame = self.receive()
            if isinstance(frame, kind):
                return frame


def a_job(**changes: Any) -> dict[str, Any]:
    return {"name": "train", "command": ["python", "train.py"], **changes}


def run_of(job: dict[str, Any]) -> RunId:
    return RunId(f"{job['id']}-e{job['epoch']}")
