"""The words of the conversation: lines of text, and after some of them the bytes of a block.

    S  gpunion-blocks 1 NONCE
    C  pass JOB BEARER UNTIL PROOF
    S  welcome
    C  get NAME OFFSET
    S  block SIZE, then the bytes from the offset on    | none
    C  names SAVE AFTER
    S  names SAVE COUNT more|over, then so many lines

Instead of any answer: no WHY, and S hangs up.

SAVE numbers the saves of a job on that machine. Who asks for the first time says `new`, and is told of the
one under way, or of the next.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field

from gpunion.vault.tree import BLOCK_SIZE_BYTES

GREETING = "gpunion-blocks 1"
LINE_MAX = 512
# A stored block is at most a plain one with its head.
STORED_MAX_BYTES = BLOCK_SIZE_BYTES + 4096
NAMES_MAX = 4096  # in one answer
# A machine that says nothing for this long is gone.
SILENCE_S = 15.0
PIECE_BYTES = 1024 * 1024


class Broken(Exception):
    """The other side hung up, or talks nonsense."""


@dataclass(slots=True)
class Partial:
    """A block of which some has come. Who drips it byte by byte is not waited for."""

    until_s: float  # of the monotonic clock
    buffer: bytearray = field(default_factory=bytearray)
    have: int = 0

    def overdue(self) -> bool:
        return time.monotonic() > self.until_s


class Lines:
    """One side of a conversation. Reads ahead, so bytes that follow a line are asked for here too."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(SILENCE_S)
        self.connection = connection
        self._ahead = b""

    def say(self, *words: object) -> None:
        self.connection.sendall((" ".join(map(str, words)) + "\n").encode())

    def hear(self, within_s: float | None = None) -> list[str]:
        """The words of one line; none where the other side has hung up between two.

        Without `within_s` it may take any time, as long as it is never silent for too long."""
        until_s = None if within_s is None else time.monotonic() + within_s
        while b"\n" not in self._ahead:
            if len(self._ahead) > LINE_MAX:
                raise Broken("a line without an end")
            more = self._received(until_s)
            if not more:
                if self._ahead:
                    raise Broken("it hung up in the middle of a line")
                return []
            self._ahead += more
        line, _, self._ahead = self._ahead.partition(b"\n")
        try:
            return line.decode("ascii").split()
        except UnicodeDecodeError as error:
            raise Broken("a line that is no text") from error

    def _received(self, until_s: float | None) -> bytes:
        if until_s is None:
            return self.connection.recv(65536)
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise Broken("a line that took too long")
        self.connection.settimeout(min(left_s, SILENCE_S))
        try:
            return self.connection.recv(65536)
        finally:
            self.connection.settimeout(SILENCE_S)

    def take(self, into: Partial) -> None:
        """Bytes until it is whole. What has come when the connection breaks stays in it."""
        place = memoryview(into.buffer)
        while into.have < len(place):
            if self._ahead:
                some = self._ahead[: len(place) - into.have]
                place[into.have : into.have + len(some)] = some
                self._ahead = self._ahead[len(some) :]
                into.have += len(some)
                continue
            got = self.connection.recv_into(place[into.have : into.have + PIECE_BYTES])
            if not got:
                raise Broken("it hung up in the middle of a block")
            into.have += got
            if into.overdue() and into.have < len(place):
                raise Broken("a block took too long")
