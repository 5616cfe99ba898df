"""The counter of a machine that keeps checkpoints: who is turned away, and that nobody can hurt it."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpunion.adapters.files.desk import DirectoryDesk
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.http import vault_server
from gpunion.adapters.http.certificates import believing, own_certificate, showing
from gpunion.adapters.http.vault_desk import HttpVaultDesk
from gpunion.adapters.http.vault_server import ROOT, VaultServer
from gpunion.ports.vault import VaultFull, VaultUnavailable

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
    file, paced = tmp_path / "keeper.pem", list[int]()
    certificate = own_certificate(file)
    desk = DirectoryDesk(DirectoryVault(tmp_path / "vault", allow=no_room))
    server = VaultServer(
        lambda: desk,
        why_not=lambda shown: "" if shown == GOOD else "it shows no admission",
        pace=paced.append,
        host="127.0.0.1",
        port=0,
        security=showing(file),
    )
    server.start()
    yield Counter(server, certificate, paced)
    server.close()


def no_room(more_bytes: int) -> None:
    raise VaultFull("its owner lends no more")


def test_who_shows_no_admission_is_turned_away(counter: Counter) -> None:
    with pytest.raises(VaultUnavailable, match="it shows no admission"):
        counter.desk(shown="somebody else's").begin("job-1", 1)
    counter.desk().begin("job-1", 1)


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
    from blake3 import blake3

    from gpunion.adapters.files.coding import encode

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


def test_as_many_as_there_may_be_are_served_and_more_are_not(counter: Counter) -> None:
    host, _, port = counter.server.address.rpartition(":")
    lines = [socket.create_connection((host, int(port))) for _ in range(vault_server.CONNECTIONS_MAX + 4)]
    try:
        lines[-1].settimeout(30)
        assert lines[-1].recv(1) == b""  # hung up on
    finally:
        for line in lines:
            line.close()
