"""Without any credential nobody makes the coordinator deaf, and no body makes it stand still or grow."""

from __future__ import annotations

import resource
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from blake3 import blake3

from gpunion.domain.protocol.frames import Heartbeat, LeaseGrant
from gpunion.sdk.client import Client
from gpunion.vault.manifests import encode
from gpunion.vault.rows import line_of
from gpunion.vault.tree import BLOCK_SIZE_BYTES
from tests.builders.checkpoints import a_manifest
from tests.integration.coordinator.process import Coordinator, FakeNode, a_job

HALF_OPEN = 2000
HALF_A_HEAD = b"GET /api/v1/campus HTTP/1.1\r\nHost: campus\r\nX-Slow: "
# What a request may take in the median while all that goes on.
MEDIAN_S, LOOKS = 1.0, 25
MEMORY_MAX_BYTES = 600 * 1024**2
HEARTBEAT_S, LEASE_S = 1.0, 10.0
LEASES = {
    "GPUNION_COORDINATOR_TIMING_HEARTBEAT_S": str(HEARTBEAT_S),
    "GPUNION_COORDINATOR_TIMING_LEASE_S": str(LEASE_S),
}


@pytest.fixture
def many_files() -> Iterator[None]:
    """For the attacker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    coordinator = Coordinator(tmp_path / "data", environment=LEASES)
    yield coordinator
    coordinator.stop()


def half_open(url: str, many: int, stack: ExitStack) -> list[socket.socket]:
    where = urlsplit(url)
    assert where.hostname is not None
    assert where.port is not None
    found = []
    for _ in range(many):
        line = stack.enter_context(socket.create_connection((where.hostname, where.port), timeout=60.0))
        line.sendall(HALF_A_HEAD)
        found.append(line)
    return found


def median_s(client: Client) -> float:
    return statistics.median(seconds_of(client) for _ in range(LOOKS))


def seconds_of(client: Client) -> float:
    """A request's."""
    began_s = time.monotonic()
    client.nodes()
    return time.monotonic() - began_s


def process_of(coordinator: Coordinator) -> int:
    assert coordinator.process is not None
    return coordinator.process.pid


def high_water_bytes(coordinator: Coordinator) -> int:
    status = Path(f"/proc/{process_of(coordinator)}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


@dataclass
class Leases:
    """An honest node that wants to go on: how long it was without an answer at most."""

    node: FakeNode
    longest_s: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)

    def keep(self) -> None:
        last_s = time.monotonic()
        while not self.ended.wait(HEARTBEAT_S):
            self.node.send(Heartbeat(sent_s=time.monotonic(), ack=0))
            self.node.receive_a(LeaseGrant)
            now_s = time.monotonic()
            self.longest_s, last_s = max(self.longest_s, now_s - last_s), now_s


@contextmanager
def a_node_that_goes_on(coordinator: Coordinator, **changes: Any) -> Iterator[Leases]:
    with coordinator.node(**changes) as node:
        leases = Leases(node)
        thread = threading.Thread(target=leases.keep)
        thread.start()
        try:
            yield leases
        finally:
            leases.ended.set()
            thread.join()


def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one(coordinator: Coordinator) -> None:
    coordinator.by_way_of = ("prlimit", "--nofile=256:4096")
    coordinator.start()
    assert resource.prlimit(process_of(coordinator), resource.RLIMIT_NOFILE) == (4096, 4096)


@pytest.mark.usefixtures("many_files")
def test_half_open_requests_from_one_address_keep_nobody_out(coordinator: Coordinator) -> None:
    """Twice as many as the system lets it have open."""
    coordinator.by_way_of = ("prlimit", "--nofile=1024:1024")
    coordinator.start()
    with ExitStack() as stack, coordinator.client() as client, a_node_that_goes_on(coordinator) as leases:
        lines = half_open(coordinator.url, HALF_OPEN, stack)
        assert median_s(client) < MEDIAN_S
        # Whoever connects only now finds a place too, and the oldest of the others has given it.
        with coordinator.client() as late:
            late.nodes()
        lines[0].settimeout(60.0)
        assert hung_up(lines[0])
        # And whoever has one does not keep it: a head has to be whole in time.
        lines[-1].settimeout(60.0)
        assert hung_up(lines[-1])
    assert leases.longest_s < LEASE_S


def test_a_head_that_drips_and_a_second_one_are_not_waited_for(coordinator: Coordinator) -> None:
    coordinator.start()
    where = urlsplit(coordinator.url)
    request = f"GET /api/v1/campus HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer {coordinator.token}\r\n\r\n"
    with socket.create_connection((where.hostname, where.port), timeout=60.0) as line:
        line.sendall(request.encode())
        assert line.recv(65536).startswith(b"HTTP/1.1 200")
        began_s = time.monotonic()
        line.settimeout(0.5)
        while time.monotonic() - began_s < 60.0:
            try:
                line.sendall(b"X")
                if line.recv(65536) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("it was waited for")


@pytest.mark.usefixtures("many_files")
def test_half_open_requests_and_three_bodies_of_60_mib_at_once_keep_nobody_waiting(
    coordinator: Coordinator,
) -> None:
    coordinator.start()
    with ExitStack() as stack:
        client = stack.enter_context(coordinator.client())
        job_id = client.submit(a_job())["job"]["id"]
        bodies = [nothing_but_objects(), a_long_list(job_id), a_list_of_no_files(job_id)]
        sender = stack.enter_context(a_node_that_goes_on(coordinator, name="n1"))
        assert client.job(job_id)["node_id"] == "n1"
        leases = stack.enter_context(a_node_that_goes_on(coordinator, name="n2"))
        pool = stack.enter_context(ThreadPoolExecutor(len(bodies)))
        half_open(coordinator.url, HALF_OPEN, stack)
        answers = [pool.submit(seal, coordinator.url, sender.node, job_id, body) for body in bodies]
        took_s: list[float] = []
        while len(took_s) < LOOKS or not all(answer.done() for answer in answers):
            took_s.append(seconds_of(client))
        assert statistics.median(took_s) < MEDIAN_S
        assert [answer.result() for answer in answers] == [422, 404, 422]
        assert max(leases.longest_s, sender.longest_s) < LEASE_S
        assert high_water_bytes(coordinator) < MEMORY_MAX_BYTES


def nothing_but_objects() -> bytes:
    return b"[" + b"{}," * (20 * 1024**2) + b"{}]"


def a_long_list(job_id: str) -> bytes:
    """Sound to the last row, of blocks that nobody has."""
    count, size_bytes = 95_000, 9 * BLOCK_SIZE_BYTES
    names = [f"{number:064x}" for number in range(9)]
    row = line_of(["f", "000000", 0o100644, size_bytes, names])
    named = {"job_id": job_id, "checkpoint_id": f"{job_id}-e1-c1"}
    head = encode(a_manifest({}, total_bytes=count * size_bytes, **named))
    body = head.partition(b"\n")[0] + b"\n"
    body += b"".join(row.replace(b"000000", b"%06d" % number, 1) for number in range(count))
    return body + line_of(["e", count + 1, blake3(body).hexdigest()])


def a_list_of_no_files(job_id: str) -> bytes:
    head = encode(a_manifest({}, job_id=job_id)).partition(b"\n")[0]
    return head + b"\n" + b"[]\n" * (20 * 1024**2)


def seal(url: str, sender: FakeNode, job_id: str, body: bytes) -> int:
    assert len(body) > 57 * 1024**2
    with httpx.Client(timeout=120.0, trust_env=False) as client:
        answer = client.post(
            f"{url}/api/v1/vault/jobs/{job_id}/seal",
            content=body,
            headers={"Authorization": f"Bearer {sender.credential}"},
        )
    return answer.status_code


def hung_up(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True
