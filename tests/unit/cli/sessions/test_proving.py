"""Who opens a session asks first whether this user serves it here already, and believes nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gpunion.cli.sessions.origin import Site
from gpunion.cli.sessions.proving import QUESTION, Proof, secret_of_user

URL, ADDRESSES, SECRET = "https://campus.example", ("127.0.0.1", "::1"), b"s" * 32
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"


def proof_at(port: int, **other: object) -> Proof:
    given = {"url": URL, "addresses": ADDRESSES, "secret": SECRET, "site": Site(name="course", port=port)}
    return Proof(**{**given, **other})  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def somebody(says: Callable[[int, str], list[bytes]]) -> AsyncIterator[int]:
    """Listens at a port and answers a question with these pieces."""

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        (question,) = (line.partition(": ")[2] for line in head.split("\r\n") if line.startswith(QUESTION))
        for piece in says(port, question):
            writer.write(piece)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answers, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield port


async def test_a_forwarder_of_this_user_is_believed_however_its_answer_is_cut() -> None:
    def says(port: int, question: str) -> list[bytes]:
        answer = proof_at(port).of(question).encode()
        return [HEAD, answer[:7], answer[7:]]

    async with somebody(says) as port:
        assert await proof_at(port).is_given()


@pytest.mark.parametrize(
    "says",
    [
        lambda port, question: [HEAD, b'{"name": "course"}'],
        lambda port, question: [HEAD],
        lambda port, question: [b"HTTP/1.1 404 Not Found\r\n\r\n", proof_at(port).of(question).encode()],
        lambda port, question: [HEAD, proof_at(port).of("an earlier question").encode()],
        lambda port, question: [HEAD, proof_at(port + 1).of(question).encode()],
        lambda port, question: [HEAD, proof_at(port, addresses=["127.0.0.1"]).of(question).encode()],
        lambda port, question: [HEAD, proof_at(port, secret=b"o" * 32).of(question).encode()],
        lambda port, question: [HEAD, proof_at(port, url="https://other.example").of(question).encode()],
        lambda port, question: [HEAD, b"x" * (1 << 18)],
    ],
    ids=["name", "nothing", "status", "replayed", "port", "addresses", "secret", "campus", "endless"],
)
async def test_nobody_else_is_whatever_they_say(says: Callable[[int, str], list[bytes]]) -> None:
    async with somebody(says) as port:
        assert not await proof_at(port).is_given()


async def test_a_port_where_nobody_listens_serves_nothing() -> None:
    async with somebody(lambda port, question: []) as port:
        pass
    assert not await proof_at(port).is_given()


def test_the_secret_is_its_users_alone_and_stays_what_it_was(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    secret = secret_of_user(environment)
    assert secret_of_user(environment) == secret
    (path,) = (tmp_path / "gpunion").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_secret_that_others_could_read_is_made_anew(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    secret = secret_of_user(environment)
    os.chmod(tmp_path / "gpunion" / "pages.key", 0o644)
    assert secret_of_user(environment) != secret


def test_without_a_place_for_it_there_is_a_secret_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "gpunion").write_text("no folder")
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert secret_of_user(environment) != secret_of_user(environment)
