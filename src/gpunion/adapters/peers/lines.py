"""The words of the conversation: lines of text, and after some of them the bytes of a block.

    S  gpunion-blocks 1 NONCE
    C  pass JOB BEARER UNTIL PROOF
    S  welcome                          | no WHY
    C  get NAME OFFSET
    S  block SIZE, then the bytes from the offset on    | none
    C  names SAVE AFTER
    S  names SAVE COUNT more|over, then so many lines

SAVE numbers the saves of a job on that machine. Who asks for the first time says `new`, and is told of the
one under way, or of the next.
"""

from __future__ import annotations

import socket

from gpunion.domain.tree import BLOCK_SIZE_BYTES

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


class Lines:
    """One side of a conversation. Reads ahead, so bytes that follow a line are asked for here too."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(SILENCE_S)
        self.connection = connection
        self._ahead = b""

    def say(self, *words: object) -> None:
        self.connection.sendall((" ".join(map(str, words)) + "\n").encode())

    def hear(self) -> list[str]:
        """The words of one line; none where the other side has hung up between two."""
        while b"\n" not in self._ahead:
            if len(self._ahead) > LINE_MAX:
                raise Broken("a line without an end")
            more = self.connection.recv(65536)
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

    def take(self, into: bytearray, size_bytes: int) -> None:
        """Bytes into `into` until it has so many. What has come when it breaks stays there."""
        while len(into) < size_bytes:
            wanted = size_bytes - len(into)
            if self._ahead:
                into += self._ahead[:wanted]
                self._ahead = self._ahead[wanted:]
                continue
            more = self.connection.recv(min(wanted, PIECE_BYTES))
            if not more:
                raise Broken("it hung up in the middle of a block")
            into += more
