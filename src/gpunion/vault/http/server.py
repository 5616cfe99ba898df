"""Gives other machines the blocks they have a pass for. A thread a connection, and only so many of them."""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from contextlib import suppress

from gpunion.vault.http.callers import Callers, NoPlace
from gpunion.vault.lines import GREETING, NAMES_MAX, PIECE_BYTES, Broken, Lines
from gpunion.vault.peers import Served, proof_of

CONNECTIONS_MAX = 8
# Clocks of two machines may differ by this much before a pass counts as old.
SKEW_S = 120.0
PATIENCE_S = 5.0
# Who has not shown a good pass by then is hung up on, however busily it talks; and before, when another
# comes and all places are taken.
ADMIT_S = 5.0
# Before the next try, after the system would not accept a connection.
PAUSE_S = 0.2
OWNER_HAS_IT = "its owner has this machine"


class Refused(Exception):
    """Why this one gets nothing."""


class BlockServer:
    """Listens from `start` to `close`. Port 0: any that is free; `address` says which."""

    def __init__(self, served: Served, host: str, port: int) -> None:
        self._served = served
        self._listening = socket.create_server((host, port), backlog=CONNECTIONS_MAX)
        self._callers: Callers[socket.socket] = Callers(CONNECTIONS_MAX)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def address(self) -> str:
        host, port = self._listening.getsockname()[:2]
        return f"{host}:{port}"

    def start(self) -> None:
        threading.Thread(target=self._listen, daemon=True, name="gpunion-blocks").start()

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            talking = list(self._open)
        for connection in (self._listening, *talking):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                connection, address = self._listening.accept()
            except OSError:  # closed; or a caller hung up too early, or there are too many open files
                self._closed.wait(PAUSE_S)
                continue
            try:
                leaver = self._callers.come(connection, address[0])
            except NoPlace:
                connection.close()
                continue
            if leaver is not None:
                with suppress(OSError):
                    leaver.shutdown(socket.SHUT_RDWR)
            threading.Thread(target=self._attend, args=(connection,), daemon=True).start()

    def _attend(self, connection: socket.socket) -> None:
        try:
            with self._lock:
                self._open.add(connection)
            with connection:
                self._converse(connection)
        except (OSError, Broken):
            pass  # it goes on elsewhere, or asks again
        finally:
            with self._lock:
                self._open.discard(connection)
            self._callers.go(connection)

    def _converse(self, connection: socket.socket) -> None:
        lines = Lines(connection)
        nonce = secrets.token_hex(16)
        lines.say(GREETING, nonce)
        try:
            job_id = self._admit(lines.hear(within_s=ADMIT_S), nonce)
        except Refused as refused:
            lines.say("no", refused)
            return
        self._callers.know(connection, job_id)
        lines.say("welcome")
        while words := lines.hear():
            if not self._served.allowed():
                lines.say("no", OWNER_HAS_IT)
                return
            match words:
                case ["get", name, offset] if offset.isdecimal():
                    self._give(lines, job_id, name, int(offset))
                case ["names", save, after] if after.isdecimal() and (save == "new" or save.isdecimal()):
                    self._tell_names(lines, job_id, None if save == "new" else int(save), int(after))
                case _:
                    raise Broken("a question that nobody asks")

    def _admit(self, words: list[str], nonce: str) -> str:
        match words:
            case ["pass", job_id, bearer, until, proof] if until.isdecimal():
                token = self._served.token_of(job_id, bearer, float(until))
            case _:
                raise Refused("that is no pass")
        if not self._served.allowed():
            raise Refused(OWNER_HAS_IT)
        if token is None:
            raise Refused("nothing of that job is here")
        if time.time() > int(until) + SKEW_S:
            raise Refused("the pass is too old")
        good = proof_of(token, nonce)
        if not hmac.compare_digest(good, proof):
            raise Refused("the pass is not good")
        return job_id

    def _give(self, lines: Lines, job_id: str, name: str, offset: int) -> None:
        """From the file into the wire, without a copy in between where the system can do that."""
        file = self._served.open_block(job_id, name)
        if file is None:
            lines.say("none")
            return
        with file:
            size_bytes = file.seek(0, 2)
            lines.say("block", size_bytes)
            while offset < size_bytes:
                piece = min(PIECE_BYTES, size_bytes - offset)
                if not self._served.allowed():
                    raise Broken(OWNER_HAS_IT)
                lines.connection.sendfile(file, offset, piece)
                offset += piece
                self._served.pace(piece)

    def _tell_names(self, lines: Lines, job_id: str, save: int | None, after: int) -> None:
        told = self._served.names(job_id, save, after, PATIENCE_S)
        names = told.names[:NAMES_MAX]
        over = told.over and len(names) == len(told.names)
        lines.say("names", told.save, len(names), "over" if over else "more")
        if names:
            lines.connection.sendall("".join(f"{name}\n" for name in names).encode())
