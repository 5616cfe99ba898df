"""A node whose agent is ours to write: it speaks the wire, and says what an attack wants it to say."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from gpunion.cli.demo.campus import LocalCampus
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.frames import CoordinatorFrame, Hello, LeaseGrant, OrderFrame, Welcome
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.wire import codec
from gpunion.wire.agent_v1 import pack, unpack_from_coordinator

ANSWER_S = 60.0
GRANT_S = 0.5  # whoever is isolated gets none
_INCARNATIONS = itertools.count(1)


@dataclass(slots=True)
class Hostile:
    campus: LocalCampus
    node_id: str
    credential: str
    model: str
    socket: ClientConnection | None = None
    seq: int = 0
    starts: list[StartRun] = field(default_factory=list)
    closed_with: str = ""

    @classmethod
    def enrol(cls, campus: LocalCampus, name: str, model: str, token: str = "") -> Hostile:
        with campus.client() as client:
            token = token or client.make_join_token()["join_token"]
            given = client.enrol(token, name, "lab-of-" + name)
        return cls(campus, given["node_id"], given["credential"], model)

    # --- the wire --------------------------------------------------------------------------------

    def dial(self, credential: str | None = None) -> ClientConnection:
        url = self.campus.url.replace("http", "ws", 1) + "/api/v1/agent"
        headers = {"Authorization": f"Bearer {self.credential if credential is None else credential}"}
        return connect(
            url,
            additional_headers=headers,
            proxy=None,
            max_size=None,
            open_timeout=ANSWER_S,
            close_timeout=1.0,
            ping_interval=None,
        )

    def connect(self, *, incarnation: str = "") -> None:
        """With a new incarnation its reports are numbered from 1."""
        self.close()
        self.socket, self.seq = self.dial(), 0
        self.send_frame(self.hello(incarnation or f"i{next(_INCARNATIONS)}"))
        self._until(Welcome)

    def hello(self, incarnation: str, **changes: Any) -> Hello:
        gpus = tuple(
            Gpu(index=index, model=self.model, memory_bytes=24 * GIB, speed=2.0) for index in range(2)
        )
        capacity = Capacity(gpus=gpus, cpus=16.0, memory_bytes=64 * GIB, uplink_bps=1e9)
        facts = NodeFacts(lab="any", capacity=capacity)
        hello = {"node_id": NodeId(self.node_id), "incarnation": incarnation, "facts": facts, "guests": ()}
        return Hello(**{**hello, "ack": 0, "sent_s": time.monotonic(), **changes})

    def send_frame(self, frame: Any) -> None:
        assert self.socket is not None
        self.socket.send(pack(frame))

    def says(self, data: bytes) -> bool:
        """False where the connection was closed over it; it is opened again then."""
        try:
            if self.socket is None:
                self.connect()
            assert self.socket is not None
            self.socket.send(data)
            self._drain(0.0)
            return True
        except (WebSocketException, OSError, TimeoutError):
            self.closed_with = self._why_closed()
            self.socket = None
            return False

    def reports(self, report: dict[str, Any]) -> bool:
        self.seq += 1
        frame = {
            "type": "ReportFrame",
            "seq": self.seq,
            "ack": 0,
            "sent_s": time.monotonic(),
            "report": report,
        }
        return self.says(envelope(frame))

    def is_heard(self) -> bool:
        """Whether it could say something still; waits until all that was sent is dealt with."""
        beat = {"type": "Heartbeat", "sent_s": time.monotonic(), "ack": 0}
        return self.says(envelope(beat)) and self._drain(GRANT_S)

    def _drain(self, wait_s: float) -> bool:
        """Takes what comes, up to a lease; false where the connection was closed."""
        try:
            while self.socket is not None:
                frame = unpack_from_coordinator(self.socket.recv(timeout=wait_s))
                self._take(frame)
                if isinstance(frame, LeaseGrant) and wait_s:
                    return True
        except TimeoutError:
            return True
        except ConnectionClosed:
            self.closed_with = self._why_closed()
            self.socket = None
        return False

    def _take(self, frame: CoordinatorFrame) -> None:
        if isinstance(frame, OrderFrame) and isinstance(frame.order, StartRun):
            if frame.order.run_id not in [start.run_id for start in self.starts]:
                self.starts.append(frame.order)

    def _until(self, kind: type) -> None:
        assert self.socket is not None
        while True:
            frame = unpack_from_coordinator(self.socket.recv(timeout=ANSWER_S))
            self._take(frame)
            if isinstance(frame, kind):
                return

    def _why_closed(self) -> str:
        closed = None if self.socket is None else self.socket.protocol.close_rcvd
        return "" if closed is None else closed.reason

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    # --- as an honest one would, to come where an attack begins ------------------------------------

    def starts_what_it_is_given(self) -> None:
        until_s = time.monotonic() + ANSWER_S
        while not self.starts:
            assert time.monotonic() < until_s, f"{self.node_id} was given no guest"
            self._drain(0.5)
        start = self.starts[-1]
        self.reports(
            {"type": "RunStarted", **of(start), "restored": None, "resumed_step": 0, "restore_s": 0.1}
        )

    def gives_its_guest_up(self) -> None:
        """Its owner takes the machine back; what ran there goes on elsewhere."""
        start = self.starts[-1]
        self.reports({"type": "NodePaused", "gpus": []})
        self.reports(
            {"type": "RunEnded", **of(start), "reason": "killed_by_owner", "last_step": 0, "exit_code": None}
        )
        self.is_heard()

    def leaves(self) -> None:
        self.reports({"type": "NodeLeft"})
        self.is_heard()


def of(start: StartRun) -> dict[str, Any]:
    return {"run_id": start.run_id, "job_id": start.job_id, "epoch": start.epoch}


def envelope(frame: dict[str, Any], **outside: Any) -> bytes:
    whole = {"v": 1, "seq": frame.get("seq", 0), "ack": frame.get("ack", 0), "epoch": 0, "body": frame}
    return json.dumps({**whole, **outside}).encode()


def plain(frame: Any) -> dict[str, Any]:
    found: dict[str, Any] = codec.to_plain(frame)
    return found
