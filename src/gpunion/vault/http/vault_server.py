"""A vault's desk for other machines, over HTTPS: the routes of the coordinator's, served from a thread each.

What is asked is the same as there (`vault_answers`), so the same client asks. What differs: who asks shows an
admission to this one place, and may use all of it, as with a shared folder or a bucket.
"""

from __future__ import annotations

import io
import json
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from socketserver import TCPServer
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, Protocol, cast
from urllib.parse import urlsplit

import structlog

from gpunion.vault.http.callers import Callers, NoPlace
from gpunion.vault.http.vault_answers import BadRequest, Json, answer_to
from gpunion.vault.interfaces import FAULT_WORDS, UNAVAILABLE_WORDS, VaultDesk
from gpunion.vault.manifest import MANIFEST_BYTES_MAX, VaultFault, VaultUnavailable
from gpunion.vault.tree import BLOCK_SIZE_BYTES

# An agent that saves or restores has eight: when a whole floor is taken back at once, so many are needed.
CONNECTIONS_MAX = 256
# Of them, in service at once: each may have a block of 4 MiB in memory. The others wait for their turn.
SERVED_MAX = 32
# And that have not been let in yet: the oldest of the address with the most gives way to a newcomer.
STRANGERS_MAX = 64
TURN_S = 1.0
# Unpacking and verifying takes some 20 MB of memory in each thread that does it: not in every connection's.
HANDS = 8
SILENCE_S = 60.0
# To shake hands; and again to ask, at first and after every answer: anybody can make that last. Clients
# leave a connection that they have not used for five seconds.
ADMIT_S = 10.0
# Before the next try, after the system would not accept a connection.
PAUSE_S = 0.2
# While the owner's cap on the network, or others, make a caller wait it hears this often that it does: it
# hangs up after a minute of silence, the coordinator after a third of one.
SIGN_OF_LIFE_S = 5.0
SIGN_OF_LIFE = b"HTTP/1.1 100 Continue\r\n\r\n"
STORED_MAX_BYTES = BLOCK_SIZE_BYTES + 4096
QUESTION_MAX_BYTES = 1024**2
PIECE_BYTES = 256 * 1024

log = structlog.get_logger()


class Waiting(Protocol):
    """How somebody waits who may be told to stop."""

    def __call__(self) -> bool: ...

    def wait(self, seconds: float) -> None: ...


Pace = Callable[[int, Waiting], None]


class VaultServer:
    """Listens from `start` to `close`. Implements `vault.peers.BlockServing`."""

    def __init__(
        self,
        desk: Callable[[], VaultDesk],
        *,
        why_not: Callable[[str], str],
        pace: Pace,
        host: str,
        port: int,
        security: ssl.SSLContext,
        admit_s: float = ADMIT_S,
    ) -> None:
        """`why_not` judges what a caller shows; `pace` hears of all that comes and goes, and may wait.
        OSError: the address is not this machine's, or is taken."""
        self._server = _Server((host, port), desk, why_not, pace, security, admit_s)

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def start(self) -> None:
        threading.Thread(target=self._server.listen, daemon=True, name="gpunion-keeper").start()

    def close(self) -> None:
        self._server.hang_up()
        self._server.hands.close()


class _Hands:
    """A few threads for all callers. Nobody waits for them when the process ends: a disk may hang."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        for _ in range(HANDS):
            threading.Thread(target=self._do, daemon=True, name="gpunion-keeper-hand").start()

    def begin(self, work: Callable[[], Any]) -> Future[Any]:
        answer: Future[Any] = Future()

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)

        with self._lock:  # what comes after the last would be waited for without end
            if self._closed:
                raise VaultUnavailable("this machine stops keeping checkpoints now")
            self._work.put(run)
        return answer

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for _ in range(HANDS):
                self._work.put(None)

    def _do(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # and the block in it


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(
        self,
        address: tuple[str, int],
        desk: Callable[[], VaultDesk],
        why_not: Callable[[str], str],
        pace: Pace,
        security: ssl.SSLContext,
        admit_s: float,
    ) -> None:
        self.admit_s = admit_s
        self.desk, self.why_not, self.pace = desk, why_not, pace
        self._security = security
        self._callers: Callers[_Caller] = Callers(CONNECTIONS_MAX, strangers_most=STRANGERS_MAX)
        self._open: set[socket.socket] = set()
        self.closed = threading.Event()
        self.turns = threading.Semaphore(SERVED_MAX)
        self.long_one = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, cast(Any, _Handler))
        self.hands = _Hands()

    def server_bind(self) -> None:
        """Without asking for the name of this machine's address, which waits for a name server."""
        TCPServer.server_bind(self)

    def listen(self) -> None:
        """Waits for callers without waking up in between, as `serve_forever` does."""
        while not self.closed.is_set():
            try:
                request, address = self.get_request()
            except OSError:  # closed; or a caller hung up too early, or there are too many open files
                self.closed.wait(PAUSE_S)
                continue
            self.process_request(request, address)

    def process_request(self, request: Any, client_address: Any) -> None:
        caller = _Caller(request)
        try:
            leaver = self._callers.come(caller, client_address[0])
        except NoPlace:
            self.shutdown_request(request)
            return
        if leaver is not None:
            leaver.hang_up()
        try:
            super().process_request(cast(Any, caller), client_address)
        except (RuntimeError, MemoryError) as error:  # no thread is to be had now
            self._callers.go(caller)
            self.shutdown_request(request)
            log.error("keeper_turned_away", trouble=str(error))

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request.line if isinstance(request, _Caller) else request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's own thread: a caller that never shakes hands keeps nobody else waiting."""
        try:
            request.line.settimeout(self.admit_s)
            with self._security.wrap_socket(request.line, server_side=True) as line:
                request.line = line
                self._open.add(line)
                try:
                    _Handler(
                        line, client_address, self, lambda: self._callers.know(request, client_address[0])
                    )
                finally:
                    self._open.discard(line)
        except (OSError, ssl.SSLError):
            pass  # it hung up, or was no client of ours
        finally:
            self._callers.go(request)

    def _let_in(self, caller: _Caller, client_address: Any) -> None:
        self._callers.know(caller, client_address[0])

    def hang_up(self) -> None:
        self.closed.set()
        for line in (self.socket, *self._open.copy()):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.exception("keeper_failed", caller=str(client_address))


class _Caller:
    """A connection, before it has shaken hands and after."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line

    def hang_up(self) -> None:
        """Its own thread takes notice."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)


class _Reading(io.RawIOBase):
    """What a caller sends, while it has time."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self.until_s = math.inf

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._line.settimeout(min(left_s, SILENCE_S))
        return self._line.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "gpunion-keeper"
    disable_nagle_algorithm = True
    server: _Server

    def __init__(
        self, line: ssl.SSLSocket, address: Any, server: _Server, let_in: Callable[[], object]
    ) -> None:
        self._let_in = let_in
        super().__init__(line, address, server)

    def setup(self) -> None:
        super().setup()
        self._reading = _Reading(self.connection)
        self.rfile = io.BufferedReader(cast(io.RawIOBase, self._reading))

    def handle_one_request(self) -> None:
        self._reading.until_s = time.monotonic() + self.server.admit_s
        super().handle_one_request()

    def do_GET(self) -> None:
        self._reading.until_s = math.inf
        self.connection.settimeout(SILENCE_S)
        self._serve()

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        try:
            self._admit()
            path = urlsplit(self.path)
            answer, names = answer_to(self.command, path.path)
            names["query"] = path.query
            with self._turn(), ExitStack() as held:
                body = self._spooled(held) if self.path.endswith("/seal") else self._body()
                self._answer(200, self._found(lambda: answer(self.server.desk(), names, body)))
        except BadRequest as request:
            self.close_connection = True  # its body may still be on the way
            self._answer(request.status, {"code": "bad_request", "detail": str(request)})
        except VaultFault as fault:
            status, code = FAULT_WORDS.get(type(fault), UNAVAILABLE_WORDS)
            self._answer(status, {"code": code, "detail": str(fault)})

    def _admit(self) -> None:
        shown = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if trouble := self.server.why_not(shown):
            raise BadRequest(401, f"this machine is not let in: {trouble}")
        self._let_in()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        waiting = _Patience(self)
        while not self.server.turns.acquire(timeout=TURN_S):
            if waiting():
                raise OSError("closed meanwhile")
            waiting.wait(0.0)
        try:
            yield
        finally:
            self.server.turns.release()

    def _length(self, most_bytes: int) -> int:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal():
            raise BadRequest(411, "the length of what is sent is not told")
        if int(length) > most_bytes:
            raise BadRequest(413, f"more than {most_bytes} bytes at once")
        return int(length)

    def _body(self) -> bytes:
        length = self._length(STORED_MAX_BYTES if self.command == "PUT" else QUESTION_MAX_BYTES)
        body = self.rfile.read(length)
        if len(body) != length:
            raise OSError("it hung up")
        self.server.pace(len(body), _Patience(self))
        return body

    def _spooled(self, held: ExitStack) -> BinaryIO:
        """A manifest, in a file where it is long; of long ones one at a time is worked on."""
        length = left = self._length(MANIFEST_BYTES_MAX)
        spooled = SpooledTemporaryFile(max_size=QUESTION_MAX_BYTES)  # noqa: SIM115
        file = cast(BinaryIO, held.enter_context(spooled))
        while left:
            piece = self.rfile.read(min(left, PIECE_BYTES))
            if not piece:
                raise OSError("it hung up")
            file.write(piece)
            left -= len(piece)
            self.server.pace(len(piece), _Patience(self))
        file.seek(0)
        if length > QUESTION_MAX_BYTES:
            held.enter_context(self.server.long_one)
        return file

    def _found(self, work: Callable[[], bytes | Json | None]) -> bytes | Json | None:
        try:
            return cast("bytes | Json | None", self.server.hands.begin(work).result())
        except (BadRequest, VaultFault):
            raise
        except Exception as error:  # the caller hears of it, and this machine's owner too
            log.exception("keeper_failed", asked=f"{self.command} {self.path}")
            raise VaultUnavailable(f"{type(error).__name__}: {error}") from error

    def _answer(self, status: int, content: bytes | Json | None) -> None:
        if content is None:
            self.send_response(204)
            self.end_headers()
            return
        binary = isinstance(content, bytes)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.server.pace(len(body), _Patience(self))
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if binary else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Patience:
    """A caller that has to wait, for the owner's cap or for others, and is told so."""

    def __init__(self, handler: _Handler) -> None:
        self._handler = handler
        self._told_s = time.monotonic()

    def __call__(self) -> bool:
        return self._handler.server.closed.is_set()

    def wait(self, seconds: float) -> None:
        self._handler.server.closed.wait(seconds)
        if time.monotonic() - self._told_s >= SIGN_OF_LIFE_S:
            self._told_s = time.monotonic()
            self._handler.wfile.write(SIGN_OF_LIFE)
