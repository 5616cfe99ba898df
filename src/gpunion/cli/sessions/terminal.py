"""This terminal as one inside a guest: what is typed goes there, what is printed there comes here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import struct
import sys
import termios
import tty
from collections.abc import Iterator

from gpunion.sdk.streams import ByteStream

HEAD = struct.Struct(">cH")
SIZE = struct.Struct(">HH")
DATA, RESIZE = b"d", b"r"
READ_BYTES = 16 * 1024
IN, OUT = 0, 1


def window() -> tuple[int, int]:
    """Rows and columns."""
    size = shutil.get_terminal_size((80, 24))
    return size.lines, size.columns


async def carry(stream: ByteStream) -> None:
    """Until the shell there has ended. StreamBroken: it broke off."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Queue[bytes] = asyncio.Queue()

    def resized() -> None:
        typed.put_nowait(HEAD.pack(RESIZE, SIZE.size) + SIZE.pack(*window()))

    def read() -> None:
        data = os.read(IN, READ_BYTES)
        if data:
            typed.put_nowait(HEAD.pack(DATA, len(data)) + data)
        else:
            loop.remove_reader(IN)
            typed.put_nowait(b"")

    async def up() -> None:
        while piece := await typed.get():
            await stream.write(piece)
        await stream.end()

    with _raw():
        loop.add_reader(IN, read)
        loop.add_signal_handler(signal.SIGWINCH, resized)
        sending = asyncio.create_task(up())
        try:
            while piece := await stream.read():
                await asyncio.to_thread(_write, piece)
        finally:
            loop.remove_reader(IN)
            loop.remove_signal_handler(signal.SIGWINCH)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await stream.close()


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Each key goes there as it is typed; without a terminal nothing is changed."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(IN)
    try:
        tty.setraw(IN)
        yield
    finally:
        termios.tcsetattr(IN, termios.TCSADRAIN, before)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(OUT, view) :]
