"""Fetches blocks from another machine. A connection that breaks is made anew and goes on where it was."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gpunion.vault.lines import GREETING, NAMES_MAX, STORED_MAX_BYTES, Broken, Lines, Partial
from gpunion.vault.peers import Pass, PeerTrouble, Told, proof_of
from gpunion.vault.tree import HASH_PATTERN

# Machines of one campus answer within milliseconds; one that does not is behind a wall.
CONNECT_S = 3.0
TRIES = 3  # in a row that bring nothing
BLOCK_MOST_S = 60.0  # one that takes longer comes sooner from anywhere else


class TcpPeers:
    """Implements `vault.peers.Peers`."""

    @contextmanager
    def meet(self, job_id: str, given: Pass) -> Iterator[TcpPeer]:
        peer = TcpPeer(job_id, given)
        try:
            peer.connect()
            yield peer
        finally:
            peer.close()


class TcpPeer:
    def __init__(self, job_id: str, given: Pass) -> None:
        self._job_id = job_id
        self._pass = given
        self._lines: Lines | None = None

    def connect(self) -> None:
        host, _, port = self._pass.address.rpartition(":")
        try:
            connection = socket.create_connection((host, int(port)), timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            raise PeerTrouble(f"{self._pass.node_id} cannot be reached at {self._pass.address}") from error
        lines = self._lines = Lines(connection)
        try:
            self._show_pass(lines)
        except (OSError, Broken) as error:
            self.close()
            raise PeerTrouble(f"{self._pass.node_id} broke off: {error}") from error

    def close(self) -> None:
        if self._lines is not None:
            with suppress(OSError):
                self._lines.connection.close()
            self._lines = None

    def fetch(self, name: str) -> bytes | None:
        stored, had_bytes, in_vain = Partial(until_s=time.monotonic() + BLOCK_MOST_S), 0, 0
        while True:
            try:
                return bytes(stored.buffer) if self._fetch(name, stored) else None
            except (OSError, Broken) as error:
                self.close()
                in_vain = 0 if stored.have > had_bytes else in_vain + 1
                had_bytes = stored.have
                if in_vain >= TRIES or stored.overdue():
                    raise PeerTrouble(f"{self._pass.node_id} broke off: {error}") from error

    def names(self, cancelled: Callable[[], bool]) -> Iterator[str]:
        save, after, over = "new", 0, False
        while not over and not cancelled():
            try:
                told = self._ask_names(save, after)
            except (OSError, Broken) as error:
                raise PeerTrouble(f"{self._pass.node_id} broke off: {error}") from error
            save, over, after = str(told.save), told.over, after + len(told.names)
            yield from told.names

    def _show_pass(self, lines: Lines) -> None:
        match lines.hear():
            case [*greeting, nonce] if " ".join(greeting) == GREETING:
                proof = proof_of(self._pass.token, nonce)
                lines.say("pass", self._job_id, self._pass.bearer, f"{self._pass.until_s:.0f}", proof)
            case _:
                raise Broken("it speaks another language")
        match self._answer(lines):
            case ["welcome"]:
                return
            case _:
                raise Broken("no answer to the pass")

    def _answer(self, lines: Lines) -> list[str]:
        """It may refuse at any moment: its owner can come back between two questions."""
        words = lines.hear()
        if words[:1] == ["no"]:
            raise PeerTrouble(f"{self._pass.node_id} says no: {' '.join(words[1:])}")
        return words

    def _connected(self) -> Lines:
        if self._lines is None:
            self.connect()
        assert self._lines is not None
        return self._lines

    def _fetch(self, name: str, stored: Partial) -> bool:
        """All of it in `stored`; what was there already is not sent again. False: it has none."""
        lines = self._connected()
        lines.say("get", name, stored.have)
        match self._answer(lines):
            case ["none"]:
                return False
            case ["block", size] if size.isdecimal() and int(size) <= STORED_MAX_BYTES:
                if len(stored.buffer) != int(size):  # the first try, or it is stored otherwise by now
                    if stored.have:
                        raise Broken("it is another one than before")
                    stored.buffer = bytearray(int(size))
                lines.take(stored)
                return True
            case _:
                raise Broken("no answer to a question")

    def _ask_names(self, save: str, after: int) -> Told:
        lines = self._connected()
        lines.say("names", save, after)
        match self._answer(lines):
            case ["names", told, count, ("more" | "over") as rest] if (told + count).isdecimal():
                if int(count) > NAMES_MAX:
                    raise Broken("more names than it may tell at once")
                names = [" ".join(lines.hear()) for _ in range(int(count))]
            case _:
                raise Broken("no answer to a question")
        if not all(HASH_PATTERN.fullmatch(name) for name in names):
            raise Broken("a name that no block can have")
        return Told(int(told), names, rest == "over")
