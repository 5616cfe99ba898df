"""A vault's desk for other machines, over HTTPS: the routes of the coordinator's, served from a thread each.

What is asked is the same as there (`coordinator.routes.vault`), so the same client asks. What differs: who
asks shows an admission to this one place, and may use all of it, as with a shared folder or a bucket.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import structlog

from gpunion.domain.tree import BLOCK_SIZE_BYTES, HASH_PATTERN
from gpunion.ports.vault import VaultFault
from gpunion.ports.vault_desk import FAULT_WORDS, UNAVAILABLE_WORDS, VaultDesk
from gpunion.wire.trees import BATCH_BLOCKS_MAX

ROOT = "/api/v1/vault"
CONNECTIONS_MAX = 64
# Unpacking and verifying takes some 20 MB of memory in each thread that does it: not in every connection's.
HANDS = 8
SILENCE_S = 60.0
ADMIT_S = 10.0  # for all that comes before the first question, which anybody can make last
# Before the next try, after the system would not accept a connection.
PAUSE_S = 0.2
STORED_MAX_BYTES = BLOCK_SIZE_BYTES + 4096
# A manifest names 32 blocks in a kilobyte or so: this is one of a few hundred terabytes.
TEXT_MAX_BYTES = 64 * 1024**2
INTEGER_MAX = 2**53

Json = dict[str, Any]
# Of a request: the parts of its path that the route names, and its body.
Answer = Callable[[VaultDesk, dict[str, str], bytes], bytes | Json | None]

log = structlog.get_logger()


class BadRequest(Exception):
    """In words, with the status it is answered by."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class VaultServer:
    """Listens from `start` to `close`. Implements `ports.peers.BlockServing`."""

    def __init__(
        self,
        desk: Callable[[], VaultDesk],
        *,
        why_not: Callable[[str], str],
        pace: Callable[[int], None],
        host: str,
        port: int,
        security: ssl.SSLContext,
    ) -> None:
        """`why_not` judges what a caller shows; `pace` hears of all that comes and goes, and may wait.
        OSError: the address is not this machine's, or is taken."""
        self._server = _Server((host, port), desk, why_not, pace, security)

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def start(self) -> None:
        threading.Thread(target=self._server.listen, daemon=True, name="gpunion-keeper").start()

    def close(self) -> None:
        self._server.hang_up()
        self._server.hands.shutdown(wait=False, cancel_futures=True)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(
        self,
        address: tuple[str, int],
        desk: Callable[[], VaultDesk],
        why_not: Callable[[str], str],
        pace: Callable[[int], None],
        security: ssl.SSLContext,
    ) -> None:
        self.desk, self.why_not, self.pace = desk, why_not, pace
        self.hands = ThreadPoolExecutor(HANDS, thread_name_prefix="gpunion-keeper")
        self._security = security
        self._free = threading.Semaphore(CONNECTIONS_MAX)
        self._open: set[socket.socket] = set()
        self._closed = threading.Event()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def listen(self) -> None:
        """Waits for callers without waking up in between, as `serve_forever` does."""
        while not self._closed.is_set():
            try:
                request, address = self.get_request()
            except OSError:  # closed; or a caller hung up too early, or there are too many open files
                self._closed.wait(PAUSE_S)
                continue
            self.process_request(request, address)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's own thread: a caller that never shakes hands keeps nobody else waiting."""
        try:
            request.settimeout(ADMIT_S)
            with self._security.wrap_socket(request, server_side=True) as line:
                self._open.add(line)
                try:
                    line.settimeout(SILENCE_S)
                    super().finish_request(line, client_address)
                finally:
                    self._open.discard(line)
        except (OSError, ssl.SSLError):
            pass  # it hung up, or was no client of ours
        finally:
            self._free.release()

    def hang_up(self) -> None:
        self._closed.set()
        for line in (self.socket, *self._open.copy()):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.exception("keeper_failed", caller=str(client_address))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "gpunion-keeper"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        try:
            self._admit()
            answer, names = self._route()
            body = self._body()
            asked = self.server.hands.submit(lambda: answer(self.server.desk(), names, body))
            self._answer(200, asked.result())
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

    def _route(self) -> tuple[Answer, dict[str, str]]:
        path = urlsplit(self.path)
        for method, pattern, answer in ROUTES:
            found = pattern.fullmatch(path.path)
            if found and method == self.command:
                return answer, found.groupdict() | {"query": path.query}
        raise BadRequest(404, "there is nothing of that name here")

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        most_bytes = STORED_MAX_BYTES if self.command == "PUT" else TEXT_MAX_BYTES
        if "Transfer-Encoding" in self.headers or not length.isdecimal():
            raise BadRequest(411, "the length of what is sent is not told")
        if int(length) > most_bytes:
            raise BadRequest(413, f"more than {most_bytes} bytes at once")
        body = self.rfile.read(int(length))
        if len(body) != int(length):
            raise OSError("it hung up")
        self.server.pace(len(body))
        return body

    def _answer(self, status: int, content: bytes | Json | None) -> None:
        if content is None:
            self.send_response(204)
            self.end_headers()
            return
        binary = isinstance(content, bytes)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if binary else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.pace(len(body))


def _has(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    blocks = _field(body, "blocks", list)
    if len(blocks) > BATCH_BLOCKS_MAX or not all(
        isinstance(name, str) and HASH_PATTERN.fullmatch(name) for name in blocks
    ):
        raise BadRequest(422, "blocks are names of blocks, and not too many of them")
    return {"blocks": sorted(desk.has(blocks, names.get("job")))}


def _put(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.put(names["name"], body, names.get("job"))


def _get(desk: VaultDesk, names: dict[str, str], body: bytes) -> bytes:
    if names["query"] == "part=start" and not names.get("job"):
        return desk.fetch_start(names["name"])
    return desk.fetch(names["name"], names.get("job"))


def _doubt(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.doubt(names["name"], names.get("job"))


def _begin(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.begin(names["job"], _number(body, "epoch"))


def _begin_copy(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.begin_copy(names["job"], _number(body, "epoch"))


def _seal(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.seal(names["job"], body)


def _adopt(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.adopt(names["job"], body)


def _latest(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    found = desk.latest(names["job"])
    return {"manifests": [] if found is None else [found.decode()]}


def _sealed(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    return {"manifests": [manifest.decode() for manifest in desk.sealed(names["job"])]}


def _hold(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    return {"hold": desk.hold(names["job"], _field(body, "checkpoint_id", str))}


def _renew(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.renew(names["hold"])


def _release(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.release(names["hold"])


def _forget(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    try:
        return {"checkpoints": list(desk.forget(names["job"], _number(body, "keep")))}
    except ValueError as error:
        raise BadRequest(422, str(error)) from error


def _collect(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    found = desk.collect_garbage()
    return {"blocks": found.blocks, "stored_bytes": found.stored_bytes}


def _field(body: bytes, name: str, kind: type) -> Any:
    try:
        value = json.loads(body)[name]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadRequest(422, f"{name} is missing") from error
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadRequest(422, f"{name} is of another kind")
    return value


def _number(body: bytes, name: str) -> int:
    value: int = _field(body, name, int)
    if not 0 <= value < INTEGER_MAX:
        raise BadRequest(422, f"{name} is a small number")
    return value


def _at(method: str, path: str, answer: Answer) -> tuple[str, re.Pattern[str], Answer]:
    parts = {
        "JOB": r"(?P<job>[A-Za-z0-9_.-]{1,128})",
        "NAME": r"(?P<name>[0-9a-f]{64})",
        "HOLD": r"(?P<hold>[0-9a-f]{32})",
    }
    for word, pattern in parts.items():
        path = path.replace(word, pattern)
    return method, re.compile(ROOT + path), answer


ROUTES = [
    _at("POST", "(?:/jobs/JOB)?/has", _has),
    _at("PUT", "(?:/jobs/JOB)?/blocks/NAME", _put),
    _at("GET", "(?:/jobs/JOB)?/blocks/NAME", _get),
    _at("POST", "(?:/jobs/JOB)?/blocks/NAME/doubt", _doubt),
    _at("POST", "/jobs/JOB/begin", _begin),
    _at("POST", "/jobs/JOB/seal", _seal),
    _at("POST", "/jobs/JOB/copies/begin", _begin_copy),
    _at("POST", "/jobs/JOB/copies/seal", _adopt),
    _at("GET", "/jobs/JOB/manifests/latest", _latest),
    _at("GET", "/jobs/JOB/manifests", _sealed),
    _at("POST", "/jobs/JOB/holds", _hold),
    _at("POST", "/holds/HOLD", _renew),
    _at("DELETE", "/holds/HOLD", _release),
    _at("POST", "/jobs/JOB/forget", _forget),
    _at("POST", "/collect", _collect),
]
