"""A client of a Jupyter server as a page is one: over HTTP and WebSockets, through a socket or an address."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect, unix_connect

ANSWER_LIMIT_S = 90.0  # generous: CI is busy


class CellFailed(Exception):
    pass


@dataclass
class Jupyter:
    """`socket`: of the server itself. Else `address`, as a browser has it."""

    token: str
    socket: Path | None = None
    address: str = "http://localhost"
    host: str = ""  # where that is not the address's own: `*.localhost` is known to browsers alone
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        if self.socket is not None:  # by a descriptor of its folder, however deep that lies
            folder = os.open(self.socket.parent, os.O_PATH | os.O_DIRECTORY)
            self.socket = Path(f"/proc/self/fd/{folder}/{self.socket.name}")
        transport = None if self.socket is None else httpx.HTTPTransport(uds=str(self.socket))
        headers = {"Authorization": f"token {self.token}"} | ({"Host": self.host} if self.host else {})
        self.http = httpx.Client(
            transport=transport,
            base_url=self.address,
            headers=headers,
            timeout=ANSWER_LIMIT_S,
            trust_env=False,
        )

    def ask(self, method: str, path: str, **words: Any) -> Any:
        answer = self.http.request(method, path, **words)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def wait_ready(self, limit_s: float = ANSWER_LIMIT_S) -> None:
        until_s = time.monotonic() + limit_s
        while True:
            try:
                self.ask("GET", "/api")
                return
            except httpx.HTTPError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.05)

    def open_notebook(self, name: str = "a.ipynb") -> str:
        """The id of its kernel."""
        content: dict[str, Any] = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        self.ask("PUT", f"/api/contents/{name}", json={"type": "notebook", "content": content})
        asked = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        return str(self.ask("POST", "/api/sessions", json=asked)["kernel"]["id"])

    @contextmanager
    def kernel(self, kernel_id: str) -> Iterator[KernelChannel]:
        words: dict[str, Any] = {
            "additional_headers": {"Authorization": f"token {self.token}"},
            "max_size": None,
            "ping_interval": None,  # it may be frozen for long
            "open_timeout": ANSWER_LIMIT_S,
        }
        path = f"/api/kernels/{kernel_id}/channels?session_id={uuid.uuid4().hex}"
        if self.socket is not None:
            channel = unix_connect(str(self.socket), f"ws://localhost{path}", **words)
        else:
            words["sock"] = socket.create_connection(("127.0.0.1", int(self.address.rpartition(":")[2])))
            words["sock"].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as browsers do
            channel = connect(f"ws://{self.host}{path}", **words)
        with channel as opened:
            yield KernelChannel(opened)

    def run(self, kernel_id: str, code: str, limit_s: float = ANSWER_LIMIT_S) -> str:
        with self.kernel(kernel_id) as channel:
            return channel.run(code, limit_s)


class KernelChannel:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._session = uuid.uuid4().hex

    def begin(self, code: str) -> str:
        """The id under which its outputs come."""
        sent = uuid.uuid4().hex
        header = {
            "msg_id": sent,
            "msg_type": "execute_request",
            "session": self._session,
            "username": "",
            "version": "5.3",
            "date": "",
        }
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        self._socket.send(json.dumps({**message, "channel": "shell", "buffers": []}))
        return sent

    def run(self, code: str, limit_s: float = ANSWER_LIMIT_S) -> str:
        """What it printed. CellFailed: what it raised."""
        return self.result(self.begin(code), limit_s)

    def result(self, sent: str, limit_s: float = ANSWER_LIMIT_S) -> str:
        said, replied, idle = "", None, False
        until_s = time.monotonic() + limit_s
        while replied is None or not idle:
            message = json.loads(self._socket.recv(timeout=max(0.01, until_s - time.monotonic())))
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                said += content["text"]
            elif kind in ("execute_result", "display_data"):
                said += content["data"].get("text/plain", "")
            elif kind == "status" and content["execution_state"] == "idle":
                idle = True
            elif kind == "execute_reply":
                replied = content
        if replied["status"] != "ok":
            raise CellFailed(f"{replied.get('ename')}: {replied.get('evalue')}")
        return said
