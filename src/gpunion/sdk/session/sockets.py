"""A Unix socket of the session's folder, with a thread for each connection."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

BACKLOG = 32
PATH_MAX_BYTES = 107  # that the kernel takes
CONNECTIONS_MAX = 32  # of one socket at a time; who comes beside them is let go


class Listener:
    """`serve` gets the connection and closes it."""

    def __init__(self, path: Path, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._places = threading.Semaphore(CONNECTIONS_MAX)
        self._socket = _bound(path)
        self._thread = threading.Thread(target=self._accept, name=path.name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if not self._places.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._served, args=(connection,), daemon=True).start()

    def _served(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError), connection:
                self._serve(connection)
        finally:
            self._places.release()


def _bound(path: Path) -> socket.socket:
    """By its whole path where that is short enough, since a dump names it so; else from its folder."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if len(os.fsencode(path)) <= PATH_MAX_BYTES:
        listening.bind(str(path))
    else:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            listening.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    path.chmod(0o600)
    listening.listen(BACKLOG)
    return listening
