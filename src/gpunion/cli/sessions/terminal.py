"""This terminal as one inside a guest: what is typed goes there, what is printed there comes here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import struct
import termios
import tty
from collections.abc import Callable, Iterator

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


async def carry(stream: ByteStream, source: int = IN, sink: int = OUT) -> None:
    """Until the shell there has ended. StreamBroken: it broke off."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Queue[bytes] = asyncio.Queue()

    def resized() -> None:
        typed.put_nowait(HEAD.pack(RESIZE, SIZE.size) + SIZE.pack(*window()))

    def read() -> None:
        data = os.read(source, READ_BYTES)
        if data:
            typed.put_nowait(HEAD.pack(DATA, len(data)) + data)
        else:
            loop.remove_reader(source)
            typed.put_nowait(b"")

    async def up() -> None:
        if not watched:  # no more of it than there is room for is read ahead
            while data := await asyncio.to_thread(os.read, source, READ_BYTES):
                await stream.write(HEAD.pack(DATA, len(data)) + data)
            typed.put_nowait(b"")
        while piece := await typed.get():
            await stream.write(piece)
        await stream.end()

    with _raw(source):
        watched = _watch(loop, source, read)
        loop.add_signal_handler(signal.SIGWINCH, resized)
        sending = asyncio.create_task(up())
        try:
            while piece := await stream.read():
                await asyncio.to_thread(_write, sink, piece)
        finally:
            if watched:
                loop.remove_reader(source)
            loop.remove_signal_handler(signal.SIGWINCH)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await stream.close()


def _watch(loop: asyncio.AbstractEventLoop, source: int, read: Callable[[], None]) -> bool:
    """Files and /dev/null cannot be watched, and need not be: reading them never waits for anybody."""
    try:
        loop.add_reader(source, read)
    except PermissionError:
        return False
    return True


@contextlib.contextmanager
def _raw(source: int) -> Iterator[None]:
    """Each key goes there as it is typed; without a terminal nothing is changed."""
    if not os.isatty(source):
        yield
        return
    before = termios.tcgetattr(source)
    try:
        tty.setraw(source)
        yield
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
