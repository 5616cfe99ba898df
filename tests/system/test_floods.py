"""Who sends what is dear to look at waits for themselves: not the others, and nobody's lease runs out."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode

from gpunion.coordinator.wheel import WHEEL_NAME
from gpunion.domain.protocol.frames import GpuReadings
from gpunion.wire.agent_v1 import pack
from tests.attack.hostile import envelope
from tests.integration.coordinator.process import Coordinator, FakeNode, a_job
from tests.services import ANSWER_LIMIT_S
from tests.system.test_connections import (
    LEASE_S,
    LEASES,
    MEDIAN_S,
    MEMORY_MAX_BYTES,
    a_node_that_goes_on,
    high_water_bytes,
    many_files,
    seconds_of,
)

__all__ = ["many_files"]  # a fixture

SENDERS = 8
UNREAD = 600  # of a megabyte and a half each
LOOKS = 15
# What a request in the middle of it may take; each of these floods once held others up for 7 to 42 s.
LONGEST_S = 5.0


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    coordinator = Coordinator(tmp_path / "data", environment=LEASES)
    coordinator.start()
    yield coordinator
    coordinator.stop()


@contextmanager
def going_on(send: Callable[[], None]) -> Iterator[None]:
    """By many at once, without end."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            with suppress(OSError, httpx.HTTPError, WebSocketException):
                send()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(1.0)  # one that cannot send any more ends with its connection


def assert_nobody_waits(coordinator: Coordinator, send: Callable[[], None]) -> None:
    with coordinator.client() as client, a_node_that_goes_on(coordinator, name="honest") as leases:
        with going_on(send):
            time.sleep(0.5)
            took_s = [seconds_of(client) for _ in range(LOOKS)]
        assert statistics.median(took_s) < MEDIAN_S
        assert max(took_s) < LONGEST_S
    assert leases.longest_s < LEASE_S
    assert high_water_bytes(coordinator) < MEMORY_MAX_BYTES


def dial(coordinator: Coordinator) -> socket.socket:
    where = urlsplit(coordinator.url)
    assert where.hostname is not None
    assert where.port is not None
    return socket.create_connection((where.hostname, where.port), timeout=30.0)


def test_a_stranger_whose_body_comes_in_chunks_of_one_byte(coordinator: Coordinator) -> None:
    """The head comes in one piece with them, so that it is known only then that nobody may send this."""
    head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"1\r\na\r\n" * 10_000

    def send() -> None:
        with dial(coordinator) as line:
            line.sendall(head + chunks)
            for _ in range(50):
                line.sendall(chunks)

    assert_nobody_waits(coordinator, send)


def test_a_node_without_a_guest_whose_body_is_nothing_but_empty_objects(coordinator: Coordinator) -> None:
    _, credential = coordinator.enrol("hostile")
    body = b'{"blocks":[' + b"{}," * 1_300_000 + b"{}]}"
    headers = {"Authorization": f"Bearer {credential}", "Content-Type": "application/json"}

    def send() -> None:
        httpx.post(
            f"{coordinator.url}/api/v1/vault/has",
            content=body,
            headers=headers,
            timeout=30.0,
            trust_env=False,
        )

    assert_nobody_waits(coordinator, send)


def test_a_node_whose_body_comes_in_chunks_of_one_byte(coordinator: Coordinator) -> None:
    _, credential = coordinator.enrol("hostile")
    head = (
        f"POST /api/v1/vault/has HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer {credential}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    ).encode()

    def send() -> None:
        with dial(coordinator) as line:
            line.sendall(head)
            for _ in range(50):
                line.sendall(b"1\r\na\r\n" * 10_000)

    assert_nobody_waits(coordinator, send)


def a_hostile_node(coordinator: Coordinator, stack: ExitStack) -> FakeNode:
    node_id, credential = coordinator.enrol("hostile")
    node = FakeNode(node_id, credential, stack.enter_context(coordinator.connection(credential)))
    node.send(node.hello())
    return node


def test_a_node_that_tells_of_its_gpus_without_pause(coordinator: Coordinator) -> None:
    padded = envelope({"type": "GpuReadings", "gpus": [], "more": [{}] * 60_000})
    with ExitStack() as stack:
        node = a_hostile_node(coordinator, stack)
        frames = [padded, pack(GpuReadings(gpus=()))]

        def send() -> None:
            for frame in frames:
                node.socket.send(frame)

        assert_nobody_waits(coordinator, send)


def test_a_node_that_asks_whether_anybody_is_there_and_reads_no_answer(coordinator: Coordinator) -> None:
    """And one whose message has parts of no bytes without end."""
    with ExitStack() as stack:
        node = a_hostile_node(coordinator, stack)
        ping = Frame(Opcode.PING, b"x" * 125).serialize(mask=True)
        part = Frame(Opcode.CONT, b"", fin=False).serialize(mask=True)
        first = Frame(Opcode.BINARY, b"", fin=False).serialize(mask=True)
        node.socket.socket.sendall(first)

        def send() -> None:
            node.socket.socket.sendall((ping + part) * 2_000)

        assert_nobody_waits(coordinator, send)


@pytest.mark.usefixtures("many_files")
def test_strangers_who_ask_for_what_anybody_may_have_and_do_not_read_it(coordinator: Coordinator) -> None:
    ask = f"GET /install/{WHEEL_NAME} HTTP/1.1\r\nHost: c\r\n\r\n".encode()
    with ExitStack() as stack, coordinator.client() as client:
        for _ in range(UNREAD):
            line = stack.enter_context(dial(coordinator))
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.sendall(ask)
        took_s = [seconds_of(client) for _ in range(LOOKS)]
        assert statistics.median(took_s) < MEDIAN_S
        assert high_water_bytes(coordinator) < MEMORY_MAX_BYTES


def test_a_body_waits_until_it_is_known_who_sends_it_and_comes_through_whole(
    coordinator: Coordinator,
) -> None:
    """Also where head, body and the next request come in pieces of a few bytes, or all at once."""
    with coordinator.client() as client:
        body = b'{"name": "train", "command": ["true"]}'
        wish = (
            f"POST /api/v1/jobs HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer {coordinator.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        for pieces in (1, 7, len(wish)):
            with dial(coordinator) as line:
                twice = wish + wish
                for start in range(0, len(twice), pieces):
                    line.sendall(twice[start : start + pieces])
                answer = b""
                while answer.count(b"HTTP/1.1 201") < 2:
                    answer += line.recv(65536)
        assert len(list(client.all_jobs())) == 6
        refused = httpx.post(
            f"{coordinator.url}/api/v1/jobs", json=a_job(), timeout=ANSWER_LIMIT_S, trust_env=False
        )
        assert (refused.status_code, refused.headers["connection"]) == (401, "close")
