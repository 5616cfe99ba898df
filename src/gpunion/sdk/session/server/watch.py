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
        self._managed = managed
        # Which process runs a cell: one that dies in it never says that it is idle again.
        self._busy_in = _process_of(managed) if managed.execution_state == "busy" else None
        self.last_s = time.time()
        self._own = managed.session.session
        self._session = Session(config=managed.session.config, key=managed.session.key)
        self._stream = managed.connect_iopub()
        self._stream.on_recv(self._heard)

    @property
    def busy(self) -> bool:
        return self._busy_in is not None and self._busy_in == _process_of(self._managed)

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
            busy = message["content"].get("execution_state") == "busy"
            self._busy_in = _process_of(self._managed) if busy else None


def _process_of(managed: Any) -> int | None:
    """None: it has ended, or is being started anew."""
    provisioner = managed.provisioner
    process = None if provisioner is None else provisioner.process
    return None if process is None or process.poll() is not None else int(process.pid)
