"""What a doorman says to whoever knocks."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.runtimes.keeper.egress_proxy import REQUEST_MAX_BYTES, Doorman, allowed_places
from gpunion.domain.egress import parse_place


async def answer_to(request: bytes, *allowed: str) -> bytes:
    """What he says, and what came of it where he connected."""

    async def place(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.read())
        writer.close()

    async with await asyncio.start_server(place, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        places = tuple(parse_place(text.replace("PORT", str(port))) for text in allowed)
        doorman = Doorman(lambda: places)
        async with await asyncio.start_server(doorman.serve, "127.0.0.1", 0, limit=REQUEST_MAX_BYTES) as door:
            reader, writer = await asyncio.open_connection(*door.sockets[0].getsockname())
            writer.write(request.replace(b"PORT", str(port).encode()))
            writer.write_eof()
            answer = await reader.read()
            writer.close()
    return answer


async def test_what_is_allowed_is_carried_both_ways_to_the_end() -> None:
    answer = await answer_to(b"CONNECT 127.0.0.1:PORT HTTP/1.1\r\nHost: x\r\n\r\nhello", "127.0.0.1:PORT")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nheard hello"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"CONNECT 127.0.0.1:PORT HTTP/1.1", b"403"),
        (b"CONNECT no..name:443 HTTP/1.1", b"403"),
        (b"GET http://127.0.0.1:PORT/ HTTP/1.1", b"405"),
        (b"CONNECT 127.0.0.1 HTTP/1.1", b"400"),
        (b"CONNECT 127.0.0.1:99999 HTTP/1.1", b"400"),
        (b"\x16\x03\x01 not http", b"400"),
    ],
)
async def test_everything_else_gets_a_no_that_says_why(request_line: bytes, status: bytes) -> None:
    answer = await answer_to(request_line + b"\r\n\r\n", "192.0.2.1:443")
    assert answer.split(b" ")[1] == status
    assert b"gpunion: " in answer


async def test_a_request_without_end_is_hung_up_on() -> None:
    unexpected: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, about: unexpected.append(about))
    try:
        answer = await answer_to(b"CONNECT " + b"x" * (2 * REQUEST_MAX_BYTES), "127.0.0.1:PORT")
    except ConnectionResetError:  # he had not read all of it
        answer = b""
    assert answer == b""
    assert unexpected == []


def test_a_list_that_cannot_be_read_allows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "egress.json"
    for text in ("", "{", '{"allow": ["nonsense"]}', '{"allow": 3}', "[]"):
        path.write_text(text)
        descriptor = os.open(path, os.O_RDONLY)
        assert allowed_places(descriptor) == (), text
        os.close(descriptor)
