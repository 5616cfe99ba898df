"""The counter of a machine that keeps checkpoints: who is turned away, and that nobody can hurt it."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from blake3 import blake3

from gpunion.tls import believing, own_certificate, showing
from gpunion.vault.codec import decode, encode
from gpunion.vault.http import vault_answers, vault_server
from gpunion.vault.http.vault_answers import ROOT
from gpunion.vault.http.vault_desk import HttpVaultDesk
from gpunion.vault.http.vault_server import Pace, VaultServer
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import MissingBlock, VaultFull, VaultUnavailable
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault

GOOD = "let me in"


@dataclass
class Counter:
    server: VaultServer
    certificate: str
    paced: list[int] = field(default_factory=list)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        host, _, port = self.server.address.rpartition(":")
        line = http.client.HTTPSConnection(host, int(port), timeout=20, context=believing(self.certificate))
        try:
            line.request(method, ROOT + path, body, {"Authorization": f"Bearer {GOOD}"} | headers)
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()

    def desk(self, shown: str = GOOD, certificate: str = "") -> HttpVaultDesk:
        return HttpVaultDesk(
            f"https://{self.server.address}", shown, certificate=certificate or self.certificate
        )


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[Counter]:
    desk = DirectoryDesk(DirectoryVault(tmp_path / "vault", allow=no_room), lambda: no_room(1))
    paced = list[int]()
    with opened(tmp_path, lambda: desk, pace=lambda size_bytes, waiting: paced.append(size_bytes)) as found:
        found.paced = paced
        yield found


@contextmanager
def opened(
    tmp_path: Path,
    desk: Callable[[], VaultDesk],
    *,
    pace: Pace = lambda size_bytes, waiting: None,
    admit_s: float = vault_server.ADMIT_S,
    host: str = "127.0.0.1",
) -> Iterator[Counter]:
    file = tmp_path / "keeper.pem"
    certificate = own_certificate(file)
    server = VaultServer(
        desk,
        why_not=lambda shown: "" if shown == GOOD else "it shows no admission",
        pace=pace,
        host=host,
        port=0,
        security=showing(file),
        admit_s=admit_s,
    )
    server.start()
    try:
        yield Counter(server, certificate)
    finally:
        server.close()


def no_room(more_bytes: int) -> None:
    raise VaultFull("its owner lends no more")


def test_who_shows_no_admission_is_turned_away(counter: Counter) -> None:
    with pytest.raises(VaultUnavailable, match="it shows no admission"):
        counter.desk(shown="somebody else's").begin("job-1", 1)
    counter.desk().begin("job-1", 1)


def test_who_asks_is_told_that_nothing_more_is_lent_and_believes_nothing_of_an_older_one(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(VaultFull, match="its owner lends no more"):
        counter.desk().check_room()
    known = [route for route in vault_answers.ROUTES if route[1].pattern != f"{ROOT}/room"]
    assert len(known) == len(vault_answers.ROUTES) - 1
    monkeypatch.setattr(vault_answers, "ROUTES", known)
    counter.desk().check_room()


def test_a_machine_with_another_certificate_is_not_believed(counter: Counter, tmp_path: Path) -> None:
    counter.certificate = own_certificate(tmp_path / "other.pem")
    with pytest.raises(ssl.SSLError):
        counter.ask("GET", "/jobs/job-1/manifests")


def test_the_key_of_a_certificate_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "keeper.pem"
    certificate = own_certificate(file)
    assert file.stat().st_mode & 0o077 == 0
    assert "PRIVATE" not in certificate
    assert own_certificate(file) == certificate


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/jobs/..%2f..%2fetc/manifests", None, 404),
        ("GET", "/jobs/../manifests", None, 422),
        ("GET", f"/blocks/{'a' * 63}", None, 404),
        ("GET", f"/blocks/{'a' * 64}", None, 404),
        ("DELETE", "/jobs/job-1/manifests", None, 404),
        ("POST", "/jobs/job-1/begin", b"{", 422),
        ("POST", "/jobs/job-1/begin", b'{"epoch": true}', 422),
        ("POST", "/jobs/job-1/begin", b'{"epoch": -1}', 422),
        ("POST", "/jobs/job-1/begin", b"[" * 100_000, 422),
        ("POST", "/jobs/job-1/forget", b'{"keep": 1}', 422),
        ("POST", "/jobs/job-1/seal", b"{}", 422),
        ("POST", "/has", b'{"blocks": ["../x"]}', 422),
        ("POST", "/jobs/job-1/holds", b'{"checkpoint_id": "c1"}', 404),
        ("PUT", f"/blocks/{'a' * 64}", b"nonsense", 422),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_made(
    counter: Counter, tmp_path: Path, method: str, path: str, body: bytes | None, status: int
) -> None:
    assert counter.ask(method, path, body)[0] == status
    assert [*tmp_path.glob("vault/jobs/*"), *tmp_path.glob("vault/blocks/*")] == []


def test_too_much_at_once_is_refused_before_it_is_read(counter: Counter) -> None:
    name, much = "a" * 64, str(10**9)
    assert counter.ask("PUT", f"/blocks/{name}", b"", **{"Content-Length": much})[0] == 413
    assert counter.ask("PUT", f"/blocks/{name}", b"", **{"Content-Length": "-1"})[0] == 411
    assert counter.ask("PUT", f"/blocks/{name}", b"", **{"Transfer-Encoding": "chunked"})[0] == 411


def test_a_full_disk_is_told_as_such(counter: Counter) -> None:
    data = b"state" * 1000
    with pytest.raises(VaultFull, match="its owner lends no more"):
        counter.desk().put(blake3(data).hexdigest(), encode(data))
    assert sum(counter.paced) > 0


def test_callers_that_say_nothing_keep_nobody_waiting(counter: Counter) -> None:
    host, _, port = counter.server.address.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(8)]
    try:
        counter.desk().begin("job-1", 1)
        silent[0].sendall(b"GET / HTTP/1.0\r\n\r\n")
        counter.desk().begin("job-1", 2)
    finally:
        for line in silent:
            line.close()


def test_callers_without_an_admission_give_way_to_who_comes_later(counter: Counter) -> None:
    host, _, port = counter.server.address.rpartition(":")
    lines = [socket.create_connection((host, int(port))) for _ in range(vault_server.CONNECTIONS_MAX + 4)]
    try:
        lines[0].settimeout(30)
        assert hung_up(lines[0])
        counter.desk().begin("job-1", 1)
    finally:
        for line in lines:
            line.close()


def hung_up(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


def test_who_asks_without_end_is_hung_up_on_before_it_is_let_in(tmp_path: Path) -> None:
    with opened(tmp_path, lambda: pytest.fail("nobody was let in"), admit_s=3.0) as counter:
        host, _, port = counter.server.address.rpartition(":")
        bare = socket.create_connection((host, int(port)))
        with believing(counter.certificate).wrap_socket(bare) as line:
            line.settimeout(0.02)
            line.sendall(b"GET /")
            for _ in range(1000):
                try:
                    assert line.recv(1) == b""
                    break
                except TimeoutError:
                    line.sendall(b"x")
                except OSError:
                    break
            else:
                pytest.fail("it could go on for ever")


def test_what_goes_wrong_on_the_machine_is_told_to_who_asked(tmp_path: Path) -> None:
    def broken() -> VaultDesk:
        raise OSError("no space to remember the mark")

    with (
        opened(tmp_path, broken) as counter,
        pytest.raises(VaultUnavailable, match="no space to remember the mark"),
    ):
        counter.desk().begin("job-1", 1)


def test_nobody_waits_for_a_disk_that_hangs_when_the_agent_ends(tmp_path: Path) -> None:
    before, hangs, asked = {*threading.enumerate()}, threading.Event(), threading.Event()

    def hanging() -> VaultDesk:
        asked.set()
        hangs.wait()
        raise VaultUnavailable("at last")

    with opened(tmp_path, hanging) as counter:
        asking = threading.Thread(target=lambda: counter.ask("GET", "/jobs/job-1/manifests"))
        asking.start()
        assert asked.wait(60)
        assert {thread for thread in {*threading.enumerate()} - before if not thread.daemon} == {asking}
        hangs.set()
        asking.join()


def test_a_caller_that_waits_for_the_owners_cap_hears_that_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault_server, "SIGN_OF_LIFE_S", 0.0)
    desk = DirectoryDesk(DirectoryVault(tmp_path / "vault"))
    data = b"state" * 1000
    name, signs = blake3(data).hexdigest(), list[bool]()

    def pace(size_bytes: int, waiting: vault_server.Waiting) -> None:
        for _ in range(3):
            waiting.wait(0.0)
            signs.append(waiting())

    with opened(tmp_path, lambda: desk, pace=pace) as counter:
        over_there = counter.desk()
        over_there.put(name, encode(data))
        assert over_there.has((name,)) == {name}
        assert decode(over_there.fetch(name)) == data
        assert {*signs} == {False}
    assert vault_server.SIGN_OF_LIFE.startswith(b"HTTP/1.1 100 ")


def test_a_name_server_is_not_asked_for_the_machines_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda name="": pytest.fail("it may be silent for half a minute"))
    with opened(tmp_path, lambda: pytest.fail("nobody asks")):
        pass


def test_a_thread_that_cannot_be_had_costs_one_caller_only(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, port = counter.server.address.rpartition(":")
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", no_thread)
        with socket.create_connection((host, int(port)), timeout=30) as line:
            assert line.recv(1) == b""  # hung up on
    counter.desk().begin("job-1", 1)


def no_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_an_address_of_the_newer_kind_is_as_good(tmp_path: Path) -> None:
    desk = DirectoryDesk(DirectoryVault(tmp_path / "vault"))
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no address of that kind")
    with opened(tmp_path, lambda: desk, host="::1") as counter:
        assert counter.server.address.startswith("[::1]:")
        over_there = counter.desk()
        over_there.begin("job-1", 1)
        with pytest.raises(MissingBlock):
            over_there.fetch("a" * 64)


def test_somebody_who_waits_is_told_at_once_that_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("nobody was to be waited for"))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        host, port = bound.getsockname()
    with pytest.raises(VaultUnavailable, match="cannot be reached"):
        HttpVaultDesk(f"http://{host}:{port}", GOOD, tries=1).latest("job-1")


def test_who_comes_while_others_are_served_gets_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault_server, "SERVED_MAX", 1)
    monkeypatch.setattr(vault_server, "TURN_S", 0.01)
    monkeypatch.setattr(vault_server, "SIGN_OF_LIFE_S", 0.0)
    desk, together, met = (
        DirectoryDesk(DirectoryVault(tmp_path / "vault")),
        threading.Barrier(2),
        list[bool](),
    )

    def busy() -> VaultDesk:
        try:
            together.wait(0.2)
            met.append(True)
        except threading.BrokenBarrierError:
            met.append(False)
        return desk

    with opened(tmp_path, busy) as counter, ThreadPoolExecutor(3) as callers:
        asked = [callers.submit(counter.ask, "GET", "/jobs/job-1/manifests") for _ in range(3)]
        assert [one.result(60) for one in asked] == [(200, b'{"manifests": []}')] * 3
    assert met == [False] * 3  # one at a time


def test_a_stranger_cannot_take_up_all_connections(counter: Counter) -> None:
    host, _, port = counter.server.address.rpartition(":")
    strangers = [socket.create_connection((host, int(port))) for _ in range(vault_server.CONNECTIONS_MAX)]
    try:
        strangers[-1].settimeout(30)
        assert strangers[-1].recv(1) == b""  # hung up on
        line = http.client.HTTPSConnection(
            host,
            int(port),
            timeout=20,
            context=believing(counter.certificate),
            source_address=("127.0.0.2", 0),
        )
        line.request("GET", f"{ROOT}/jobs/job-1/manifests", headers={"Authorization": f"Bearer {GOOD}"})
        assert line.getresponse().status == 200
        line.close()
    finally:
        for stranger in strangers:
            stranger.close()


def test_who_was_let_in_is_no_stranger(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_server, "STRANGERS_MAX", 1)
    host, _, port = counter.server.address.rpartition(":")
    security, lines = believing(counter.certificate), list[http.client.HTTPSConnection]()
    for _ in range(3):
        lines.append(http.client.HTTPSConnection(host, int(port), timeout=20, context=security))
        lines[-1].request("GET", f"{ROOT}/jobs/x/manifests", headers={"Authorization": f"Bearer {GOOD}"})
        assert lines[-1].getresponse().read() == b'{"manifests": []}'
    for line in lines:
        line.close()
