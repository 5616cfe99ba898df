"""Places that stop in the middle of something: a folder, a coordinator, a bucket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from gpunion.vault.bounded import bounded_vault
from gpunion.vault.http.vault_desk import HttpVaultDesk
from gpunion.vault.manifest import JobKey, VaultUnavailable
from gpunion.vault.room import room
from gpunion.vault.stores.bucket.bucket import Bucket, open_bucket
from gpunion.vault.timeout_guard import Patience
from tests.builders.memory_vault import MemoryVault
from tests.unit.agent.fakes import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def waits(until: threading.Event, began: threading.Event) -> str:
    began.set()
    until.wait()
    return "done"


def test_a_piece_is_waited_for_while_others_get_done_and_given_up_when_none_does(clock: ManualClock) -> None:
    """By the test's own clock; the short limit is only how often it is looked at."""
    patience = Patience(stall_s=0.01, now_s=clock.now_s)
    began, done = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(lambda: patience.carry("attic", lambda: waits(done, began)))
        began.wait()
        for _ in range(5):
            clock.at_s += 0.006
            patience.carry("attic", lambda: None)
        assert not slow.done()
        done.set()
        assert slow.result() == "done"
        done.clear()
        began.clear()
        stuck = pool.submit(lambda: patience.carry("attic", lambda: waits(done, began)))
        while not stuck.done():
            clock.at_s += 0.02
            pass_on()
        with pytest.raises(VaultUnavailable, match="attic has got nothing done for"):
            stuck.result()
        done.set()


def test_memory_that_is_still_read_by_who_was_given_up_is_not_used_again(clock: ManualClock) -> None:
    patience = Patience(stall_s=0.01, now_s=clock.now_s)
    block, wakes, read = room("source", 4), threading.Event(), list[bytes]()
    block[:] = b"mine"

    def hang() -> None:
        while not wakes.wait(0.001):
            clock.at_s += 1.0
        read.append(bytes(block))

    with pytest.raises(VaultUnavailable):
        patience.carry("attic", hang)
    room("source", 4)[:] = b"next"
    wakes.set()
    while not read:
        pass_on()
    assert read == [b"mine"]


def pass_on() -> None:
    threading.Event().wait(0.001)


def test_a_hold_is_taken_and_let_go_through_the_bounds() -> None:
    story: list[str] = []

    class Holding(MemoryVault):
        @contextmanager
        def hold(self, job_id: str, checkpoint_id: str) -> Iterator[None]:
            story.append(f"{checkpoint_id} is held")
            yield
            story.append("and let go")

    vault = bounded_vault(Holding([]), "attic", Patience()).keyed(JobKey(job_id="job-1", secret=bytes(32)))
    with vault.hold("job-1", "c1"):
        story.append(vault.describe())
    assert story == ["c1 is held", "in memory", "and let go"]


@contextmanager
def silent_server() -> Iterator[tuple[str, list[socket.socket]]]:
    """It takes connections, reads nothing, says nothing."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", taken
        server.shutdown(socket.SHUT_RDWR)
        for connection in taken:
            connection.close()


@pytest.mark.parametrize(
    "ask",
    [lambda desk: desk.begin("job-1", 1), lambda desk: desk.put("ab" * 32, bytes(64 * 1024**2))],
    ids=["says nothing", "reads nothing"],
)
def test_a_coordinator_that_hangs_is_given_up_at_once_and_not_asked_again(
    ask: Callable[[HttpVaultDesk], object],
) -> None:
    with silent_server() as (url, taken):
        with pytest.raises(VaultUnavailable, match="has taken and given nothing for"):
            ask(HttpVaultDesk(url, "secret", silence_limit_s=0.2))
        while not taken:
            pass_on()
        assert len(taken) == 1


@pytest.mark.requires("s3")
def test_a_bucket_that_hangs_is_given_up() -> None:
    with silent_server() as (url, _taken):
        bucket = Bucket(
            bucket="vaults",
            endpoint=url,
            access_key_id="me",
            secret_access_key="hush",
            tries=1,
            request_limit_s=1,
        )
        with pytest.raises(VaultUnavailable):
            open_bucket(bucket).get("anything")
