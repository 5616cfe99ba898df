"""Large answers over HTTP, by few and large reads.

A general client takes an answer apart into small events, which for blocks of megabytes costs seven times the
processor time, and threads wait for each other meanwhile (docs/measurements/checkpoint.md).
"""

from __future__ import annotations

import http.client
import ssl
import time
from urllib.parse import urlsplit

# One that nobody used for longer is made anew: servers hang up after some seconds, and of a line that a
# firewall has forgotten, or of a machine that went without a word, nothing is heard until the limit.
IDLE_MAX_S = 4.0


class LineHangs(Exception):
    """Nothing came for too long."""


class LineBroken(Exception):
    """It could not be made, or broke off; asking again may help."""


class Lines:
    """Connections to one server, as many as are used at once. Any number of threads."""

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        *,
        connect_limit_s: float,
        silence_limit_s: float,
        security: ssl.SSLContext,
    ):
        place = urlsplit(url)
        self._address = (place.hostname or "", place.port)
        self._path = place.path
        self._headers = headers
        self._connect_limit_s = connect_limit_s
        self._silence_limit_s = silence_limit_s
        self._security = security if place.scheme == "https" else None
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []  # since when

    def get(self, path: str) -> tuple[int, bytes]:
        """The status and all that was answered."""
        while self._idle:
            try:
                idle_since_s, line = self._idle.pop()
            except IndexError:
                break
            if time.monotonic() - idle_since_s > IDLE_MAX_S:
                line.close()
                continue
            try:
                return self._answer(line, path)
            except LineBroken:
                continue  # the server has hung up on it meanwhile
        return self._answer(self._made(), path)

    def _made(self) -> http.client.HTTPConnection:
        host, port = self._address
        line: http.client.HTTPConnection
        if self._security is None:
            line = http.client.HTTPConnection(host, port, timeout=self._connect_limit_s)
        else:
            line = http.client.HTTPSConnection(
                host, port, timeout=self._connect_limit_s, context=self._security
            )
        try:
            line.connect()
        except (OSError, ssl.SSLError) as error:
            line.close()
            raise LineBroken(str(error) or type(error).__name__) from error
        line.sock.settimeout(self._silence_limit_s)
        return line

    def _answer(self, line: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
        kept = False
        try:
            line.request("GET", f"{self._path}{path}", headers=self._headers)
            with line.getresponse() as response:
                answer = response.status, response.read()
                kept = not response.will_close
        except TimeoutError as error:
            raise LineHangs from error
        except (OSError, http.client.HTTPException) as error:
            raise LineBroken(str(error) or type(error).__name__) from error
        finally:
            if kept:
                self._idle.append((time.monotonic(), line))
            else:
                line.close()
        return answer
