"""What a browser does with a notebook, without one: requests, a kernel, a cell. By whichever address."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from websockets import Origin
from websockets.sync.client import ClientConnection, connect

LIMIT_S = 60.0
Connect = Callable[[], socket.socket]


def on_loopback(port: int) -> Connect:
    def connected() -> socket.socket:
        found = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    return connected


def at_socket(path: str) -> Connect:
    def connected() -> socket.socket:
        found = socket.socket(socket.AF_UNIX)
        found.settimeout(LIMIT_S)
        found.connect(path)
        return found

    return connected


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    cookies: str = ""  # all that it sets, as they are sent back

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Notebook:
    """A server of notebooks at `host`, reached by `connect`."""

    host: str
    connect: Connect
    token: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """`headers` replace those that are sent by themselves; one that is empty is left out."""
        asked = {"Host": self.host, **self.headers}
        if self.token:
            asked["Authorization"] = f"token {self.token}"
        if body is not None:
            asked["Content-Length"] = str(len(body))
        asked |= headers or {}
        connection = http.client.HTTPConnection("unused", timeout=LIMIT_S)
        connection.sock = self.connect()
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in asked.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            set_ones = answer.headers.get_all("Set-Cookie") or []
            cookies = "; ".join(one.partition(";")[0] for one in set_ones)
            return Answer(answer.status, dict(answer.getheaders()), answer.read(), cookies)
        finally:
            connection.close()

    def kernel(self, kernel_id: str = "") -> Kernel:
        """A new one, or the one with that id."""
        found = kernel_id or self.ask("POST", "/api/kernels", b"{}").json["id"]
        address = f"ws://{self.host}/api/kernels/{found}/channels?token={self.token}"
        opened = contextlib.ExitStack()
        socket = opened.enter_context(
            connect(
                address,
                sock=self.connect(),
                compression=None,
                max_size=None,
                open_timeout=LIMIT_S,
                ping_interval=None,
                origin=Origin(f"http://{self.host}"),
            )
        )
        return Kernel(found, socket, opened)


class Kernel:
    def __init__(self, kernel_id: str, socket: ClientConnection, opened: contextlib.ExitStack) -> None:
        self.id = kernel_id
        self.socket = socket
        self._opened = opened

    def run(self, code: str, limit_s: float = LIMIT_S) -> str:
        """What a cell printed, its value, or its error's name and words."""
        asked = self.send(code)
        said, ended = "", {"idle": False, "execute_reply": False}
        until_s = time.monotonic() + limit_s
        while not all(ended.values()):
            message = json.loads(self.socket.recv(timeout=max(0.1, until_s - time.monotonic())))
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                said += content["text"]
            elif kind == "execute_result":
                said += content["data"]["text/plain"]
            elif kind == "error":
                said += f"{content['ename']}: {content['evalue']}"
            elif kind == "status" and content["execution_state"] == "idle":
                ended["idle"] = True
            elif kind == "execute_reply":
                ended["execute_reply"] = True
        return said

    def send(self, code: str) -> str:
        asked = uuid.uuid4().hex
        header = {
            "msg_id": asked,
            "username": "somebody",
            "session": self.id,
            "msg_type": "execute_request",
            "version": "5.3",
            "date": "",
        }
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        whole = {
            "header": header,
            "parent_header": {},
            "metadata": {},
            "channel": "shell",
            "content": content,
        }
        self.socket.send(json.dumps(whole))
        return asked

    def close(self) -> None:
        self._opened.close()
