"""A terminal inside a guest, from input that is no terminal."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import pytest

from gpunion.cli.sessions.terminal import DATA, HEAD, carry
from gpunion.sdk.streams import ByteStream


class Shell:
    """Ends once its input has, having said so."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended = asyncio.Event()
        self.says = [b"", b"bye\n"]

    async def write(self, data: bytes) -> None:
        kind, length = HEAD.unpack_from(data)
        assert (kind, length) == (DATA, len(data) - HEAD.size)
        self.heard += data[HEAD.size :]

    async def end(self) -> None:
        self.ended.set()

    async def read(self) -> bytes:
        await self.ended.wait()
        return self.says.pop()

    async def close(self) -> None:
        pass


def typing(shell: Shell, source: int, sink: int) -> Any:
    return asyncio.wait_for(carry(cast(ByteStream, shell), source, sink), 20.0)


@pytest.mark.parametrize("words", [b"", b"nvidia-smi\n" * 5000])
async def test_what_is_in_a_file_is_typed_and_then_the_input_ends(tmp_path: Path, words: bytes) -> None:
    (tmp_path / "typed").write_bytes(words)
    shell = Shell()
    with open(tmp_path / "typed", "rb") as source, open(tmp_path / "printed", "wb") as sink:
        await typing(shell, source.fileno(), sink.fileno())
    assert shell.heard == words
    assert (tmp_path / "printed").read_bytes() == b"bye\n"


async def test_no_input_at_all_ends_at_once(tmp_path: Path) -> None:
    shell = Shell()
    with open(os.devnull, "rb") as source, open(tmp_path / "printed", "wb") as sink:
        await typing(shell, source.fileno(), sink.fileno())
    assert (tmp_path / "printed").read_bytes() == b"bye\n"


async def test_what_comes_through_a_pipe_is_typed_as_it_comes(tmp_path: Path) -> None:
    shell = Shell()
    reading, writing = os.pipe()
    os.write(writing, b"ls\n")
    os.close(writing)
    try:
        with open(tmp_path / "printed", "wb") as sink:
            await typing(shell, reading, sink.fileno())
    finally:
        os.close(reading)
    assert shell.heard == b"ls\n"
