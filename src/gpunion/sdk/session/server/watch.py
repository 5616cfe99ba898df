"""What a kernel does for its user, heard on its own channel: what we have it do ourselves does not count."""

from __future__ import annotations

import time
from typing import Any

from jupyter_client.session import Session

# Everything else changes no variable, and nobody is at work for it.
WORK = frozenset({"execute_request", "comm_msg", "comm_open"})


class Watch:
    """`turns` grows with whatever may have changed a variable."""

    def __init__(self, managed: Any) -> None:
        self.turns = 0
        self.busy = managed.execution_state == "busy"  # since before anybody listened
        self.last_s = time.time()
        self._own = managed.session.session
        self._session = Session(config=managed.session.config, key=managed.session.key)
        self._stream = managed.connect_iopub()
        self._stream.on_recv(self._heard)

    def close(self) -> None:
        if not self._stream.closed():
            self._stream.close()

    def _heard(self, parts: list[Any]) -> None:
        try:
            _, parts = self._session.feed_identities(parts)
            message = self._session.deserialize(parts)
            parent = message["parent_header"]
            if parent.get("session") == self._own or parent.get("msg_type") not in WORK:
                return
        except Exception:  # a kernel may send what it likes
            return
        self.turns += 1
        self.last_s = time.time()
        if message["msg_type"] == "status":
            self.busy = message["content"].get("execution_state") == "busy"
