"""Blocks from machine to machine: only with a good pass, on from where it broke off, and never needed."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.networks import address_towards
from gpunion.agent.checkpoints.directly import DirectSource
from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.passes import PASS_VALID_S, PeerPass
from gpunion.domain.resources import GIB
from gpunion.vault import lines
from gpunion.vault.files_ready import DirectoryReady
from gpunion.vault.http import client, server
from gpunion.vault.http.client import TcpPeers
from gpunion.vault.http.server import CONNECTIONS_MAX, SKEW_S, BlockServer
from gpunion.vault.peers import Pass, PeerTrouble
from tests.unit.peers.alpha import DATA, JOB, NAME, Alpha


def fetched(given: PeerPass, name: str = NAME, job_id: str = JOB) -> bytes | None:
    with TcpPeers().meet(job_id, given) as peer:
        return peer.fetch(name)


def test_a_block_comes_as_it_is_stored_and_is_verified_by_whoever_takes_it(
    alpha: Alpha, tmp_path: Path
) -> None:
    assert fetched(alpha.pass_for()) is None
    alpha.ready.put(JOB, NAME, DATA)
    beta = DirectoryReady(tmp_path / "beta", limit_bytes=GIB)
    with DirectSource(TcpPeers(), beta, JOB, alpha.pass_for()) as source:
        assert source.read(NAME) == DATA
        assert beta.lacking(JOB, [NAME]) == {NAME}  # read, not kept
        assert source.keep(NAME) is not None
        assert source.read("0" * 64) is None
        assert source.keep("0" * 64) is None
    assert source.trouble == ""
    assert source.direct_bytes >= len(DATA)
    assert beta.read(JOB, NAME) == DATA


def test_damage_on_the_way_is_found_and_the_vault_is_asked_instead(alpha: Alpha, tmp_path: Path) -> None:
    alpha.ready.put(JOB, NAME, DATA)
    [path] = alpha.ready.place.glob(f"{JOB}/blocks/*/*")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with DirectSource(
        TcpPeers(), DirectoryReady(tmp_path / "b", limit_bytes=GIB), JOB, alpha.pass_for()
    ) as s:
        assert s.read(NAME) is None
    assert "other bytes" in s.trouble
    kept = DirectoryReady(tmp_path / "b", limit_bytes=GIB)
    with DirectSource(TcpPeers(), kept, JOB, alpha.pass_for()) as s:
        assert s.keep(NAME) is None
    assert "other bytes" in s.trouble
    assert kept.lacking(JOB, [NAME]) == {NAME}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"key": "5b" * 32}, "not good"),
        ({"age_s": PASS_VALID_S + 2 * SKEW_S}, "too old"),
    ],
)
def test_a_bad_pass_gets_nothing(alpha: Alpha, changes: dict[str, object], why: str) -> None:
    with pytest.raises(PeerTrouble, match=why):
        fetched(alpha.pass_for(**changes))  # type: ignore[arg-type]


def test_a_pass_is_good_for_its_bearer_and_its_job_only(alpha: Alpha) -> None:
    with pytest.raises(PeerTrouble, match="not good"):
        fetched(replace(alpha.pass_for(), bearer=NodeId("gamma")))
    with pytest.raises(PeerTrouble, match="nothing of that job"):
        fetched(alpha.pass_for(), job_id="job-2")
    alpha.desk.forget(JOB)
    with pytest.raises(PeerTrouble, match="nothing of that job"):
        fetched(alpha.pass_for())


def test_nothing_goes_out_when_the_owner_has_the_machine_and_no_block_within_a_notice(alpha: Alpha) -> None:
    alpha.ready.put(JOB, NAME, DATA)
    alpha.owner_state = OwnerState.RECLAIMING
    assert fetched(alpha.pass_for()) is None
    alpha.owner_state = OwnerState.RECLAIMED
    with pytest.raises(PeerTrouble, match="its owner has this machine"):
        fetched(alpha.pass_for())


def test_an_owner_who_comes_back_between_two_questions_is_named(alpha: Alpha) -> None:
    with TcpPeers().meet(JOB, alpha.pass_for()) as peer:
        assert peer.fetch(NAME) is None
        alpha.owner_state = OwnerState.RECLAIMED
        with pytest.raises(PeerTrouble, match="its owner has this machine"):
            list(peer.names(lambda: False))


def test_strangers_who_only_drip_are_shown_out_and_others_get_in(
    alpha: Alpha, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha.ready.put(JOB, NAME, DATA)
    monkeypatch.setattr(server, "ADMIT_S", 0.5)
    monkeypatch.setattr(lines, "SILENCE_S", 3600.0)  # they are never silent for as long as that is allowed
    host, _, port = alpha.server.address.rpartition(":")
    with ExitStack() as open_until_the_end:
        for _ in range(CONNECTIONS_MAX):
            stranger = socket.create_connection((host, int(port)), timeout=60.0)
            open_until_the_end.enter_context(stranger)
            stranger.sendall(b"p")
        assert _eventually_fetched(alpha) is not None


def test_strangers_give_way_to_who_comes_later(alpha: Alpha) -> None:
    """At once, and not only when their time is over."""
    alpha.ready.put(JOB, NAME, DATA)
    host, _, port = alpha.server.address.rpartition(":")
    with ExitStack() as open_until_the_end:
        silent = [
            open_until_the_end.enter_context(socket.create_connection((host, int(port)), timeout=60.0))
            for _ in range(3 * CONNECTIONS_MAX)
        ]
        assert fetched(alpha.pass_for()) is not None
        greeted = [line.recv(1) for line in silent[-2:]]
        assert all(greeted)


def test_a_connection_that_cannot_be_accepted_does_not_end_the_service(
    alpha: Alpha, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha.ready.put(JOB, NAME, DATA)
    refusals = [OSError(errno.EMFILE, "too many open files"), OSError(errno.ECONNABORTED, "hung up")]

    class Refusing(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            if refusals:
                raise refusals.pop()
            return super().accept()

    alpha.server.close()
    monkeypatch.setattr(socket, "create_server", lambda address, backlog: _listening(Refusing(), address))
    alpha.server = BlockServer(alpha.desk, "127.0.0.1", 0)
    alpha.server.start()
    assert fetched(alpha.pass_for()) is not None
    assert refusals == []


def _listening(bare: socket.socket, address: tuple[str, int]) -> socket.socket:
    bare.bind(address)
    bare.listen()
    return bare


def _eventually_fetched(alpha: Alpha) -> bytes | None:
    """As soon as strangers are shown out."""
    until_s = time.monotonic() + 60.0
    while True:
        try:
            return fetched(alpha.pass_for())
        except PeerTrouble:
            assert time.monotonic() < until_s, "the strangers stay"
            time.sleep(0.005)


def test_a_machine_that_is_not_there_is_told_and_nothing_is_asked_of_it_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    given = PeerPass(
        address=f"127.0.0.1:{port}", node_id=NodeId("alpha"), bearer=NodeId("beta"), until_s=0.0, token="00"
    )
    with DirectSource(TcpPeers(), DirectoryReady(tmp_path, limit_bytes=1), JOB, given) as source:
        assert source.read(NAME) is None
    assert "cannot be reached" in source.trouble


class Stuttering:
    """Stands between two machines and cuts every connection after so many bytes."""

    def __init__(self, address: str, cut_after: int) -> None:
        host, _, port = address.rpartition(":")
        self._there = (host, int(port))
        self._cut_after = cut_after
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                self.connections += 1
                there = socket.create_connection(self._there)
                threading.Thread(target=self._carry, args=(here, there, None), daemon=True).start()
                threading.Thread(target=self._carry, args=(there, here, self._cut_after), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, most: int | None) -> None:
        carried = 0
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data if most is None else data[: most - carried])
                carried += len(data)
                if most is not None and carried >= most:
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_a_block_goes_on_where_a_broken_connection_left_it(alpha: Alpha) -> None:
    alpha.ready.put(JOB, NAME, DATA)
    whole = fetched(alpha.pass_for())
    cable = Stuttering(alpha.server.address, cut_after=len(DATA) // 2)
    try:
        given = replace(alpha.pass_for(), address=cable.address)
        assert fetched(given) == whole
        assert cable.connections == 3  # half, the other half but for the greetings, the rest
    finally:
        cable.close()


class Slow:
    """A machine that takes so long for every block."""

    def __init__(self, block_s: float) -> None:
        self.now_s, self.asked, self._block_s = 0.0, 0, block_s

    @contextmanager
    def meet(self, job_id: str, given: Pass) -> Iterator[Slow]:
        yield self

    def fetch(self, name: str) -> bytes | None:
        self.now_s += self._block_s
        self.asked += 1
        return b"?" * 4_000_000

    def names(self, cancelled: Callable[[], bool]) -> Iterator[str]:
        return iter(())


@pytest.mark.parametrize(("block_s", "asked"), [(0.1, 50), (3.0, 4)])
def test_a_machine_that_gives_less_than_the_vault_would_is_asked_no_longer(
    alpha: Alpha, block_s: float, asked: int
) -> None:
    class Believing(DirectoryReady):
        def opened(self, job_id: str, name: str, stored: bytes) -> bytes:
            return stored

    slow, given = Slow(block_s), alpha.pass_for()
    ready = Believing(alpha.ready.place, limit_bytes=GIB)
    with DirectSource(slow, ready, JOB, given, now_s=lambda: slow.now_s) as source:
        came = [source.read(NAME) for _ in range(50)]
    assert slow.asked == asked == len([data for data in came if data is not None])
    assert bool(source.trouble) == (asked < 50)


def test_a_block_that_drips_is_not_waited_for(alpha: Alpha, monkeypatch: pytest.MonkeyPatch) -> None:
    alpha.ready.put(JOB, NAME, DATA)
    monkeypatch.setattr(client, "BLOCK_MOST_S", -1.0)
    with pytest.raises(PeerTrouble, match="took too long"):
        fetched(alpha.pass_for())


def test_a_machine_knows_the_address_it_would_use() -> None:
    assert address_towards("http://127.0.0.1:8470") == "127.0.0.1"
