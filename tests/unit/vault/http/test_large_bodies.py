"""Blocks of the campus's vault over HTTP: what a server may do to whoever fetches one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gpunion.vault.http import large_bodies as lines
from gpunion.vault.http import vault_desk
from gpunion.vault.http.vault_desk import HttpVaultDesk
from gpunion.vault.manifest import MissingBlock, VaultUnavailable

NAME = "ab" * 32
BLOCK = bytes(range(256)) * 4096
SILENCE_S = 0.2  # of those that never answer
LIMIT_S = 60.0

Answer = Callable[[socket.socket], bool]  # False: hang up


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_desk, "WAIT_S", 0.0)
    monkeypatch.setattr(lines, "IDLE_MAX_S", LIMIT_S)


def whole(line: socket.socket) -> bool:
    line.sendall(head(200, len(BLOCK)) + BLOCK)
    return True


def whole_and_gone(line: socket.socket) -> bool:
    whole(line)
    return False


def half(line: socket.socket) -> bool:
    line.sendall(head(200, len(BLOCK)) + BLOCK[: len(BLOCK) // 2])
    return False


def missing(line: socket.socket) -> bool:
    body = json.dumps({"code": "missing_block", "detail": "the vault does not hold it"}).encode()
    line.sendall(head(404, len(body)) + body)
    return True


def odd(line: socket.socket) -> bool:
    line.sendall(b"what?\r\n\r\n")
    return False


def test_one_connection_carries_many_blocks() -> None:
    with server([whole] * 3) as (url, met):
        desk = HttpVaultDesk(url, "secret")
        assert [desk.fetch(NAME), desk.fetch(NAME, "job-1"), desk.fetch(NAME)] == [BLOCK] * 3
    assert met.connections == 1
    assert met.asked[0].startswith(f"GET /api/v1/vault/blocks/{NAME} ")
    assert met.asked[1].startswith(f"GET /api/v1/vault/jobs/job-1/blocks/{NAME} ")
    assert "Authorization: Bearer secret" in met.asked[0]


@pytest.mark.parametrize("trouble", [whole_and_gone, half, odd], ids=lambda answer: answer.__name__)
def test_a_line_that_breaks_is_made_anew(trouble: Answer) -> None:
    with server([trouble, whole, whole]) as (url, met):
        desk = HttpVaultDesk(url, "secret")
        assert [desk.fetch(NAME), desk.fetch(NAME)] == [BLOCK] * 2
    assert met.connections == 2


def test_a_line_that_nobody_used_for_a_while_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall may have forgotten it: whatever was asked on it would be heard by nobody."""
    with server([whole, whole]) as (url, met):
        desk = HttpVaultDesk(url, "secret")
        assert desk.fetch(NAME) == BLOCK
        monkeypatch.setattr(lines, "IDLE_MAX_S", -1.0)
        assert desk.fetch(NAME) == BLOCK
    assert met.connections == 2


def test_what_the_vault_says_is_told() -> None:
    with server([missing]) as (url, _), pytest.raises(MissingBlock, match="the vault does not hold it"):
        HttpVaultDesk(url, "secret").fetch(NAME)


def test_a_server_that_is_not_there_is_told() -> None:
    with server([]) as (url, _):
        pass
    with pytest.raises(VaultUnavailable, match="cannot be reached"):
        HttpVaultDesk(url, "secret").fetch(NAME)


def test_a_server_that_hangs_is_told() -> None:
    over = threading.Event()

    def silent(line: socket.socket) -> bool:
        over.wait(LIMIT_S)
        return False

    with server([silent]) as (url, _):
        with pytest.raises(VaultUnavailable, match=r"has taken and given nothing for 0\.2 s"):
            HttpVaultDesk(url, "secret", silence_limit_s=SILENCE_S).fetch(NAME)
        over.set()


def head(status: int, size_bytes: int) -> bytes:
    return f"HTTP/1.1 {status} -\r\nContent-Length: {size_bytes}\r\n\r\n".encode()


class Met:
    """What came to a server."""

    def __init__(self) -> None:
        self.connections = 0
        self.asked: list[str] = []


@contextmanager
def server(answers: list[Answer]) -> Iterator[tuple[str, Met]]:
    """Gives these answers, one after the other, to whoever asks."""
    met, left = Met(), list(answers)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while left:
            try:
                line, _ = listening.accept()
            except OSError:
                return
            met.connections += 1
            with line:
                line.settimeout(LIMIT_S)
                while left and (asked := request_of(line)):
                    met.asked.append(asked)
                    if not left.pop(0)(line):
                        break

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", met
    finally:
        listening.close()
        serving.join(0 if left else LIMIT_S)


def request_of(line: socket.socket) -> str:
    """Empty: it has hung up."""
    found = b""
    while not found.endswith(b"\r\n\r\n"):
        more = line.recv(4096)
        if not more:
            return ""
        found += more
    return found.decode()
