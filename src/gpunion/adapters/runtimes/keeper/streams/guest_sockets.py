"""The safe way to a socket in a folder that a guest owns.

A guest puts there what it likes. A link would lead to a socket of the host's, and a hard link be one: so no
link is followed, only a socket is taken, what is connected to is the very file that was looked at, and the
one who listens has to be one of the guest's users. By the descriptor, a path may be longer than the 107
bytes that an address has room for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import Container, Iterator
from functools import partial
from pathlib import Path

from gpunion.adapters.runtimes.keeper.names import SOCKETS_DIR
from gpunion.adapters.runtimes.keeper.streams.threads import beside
from gpunion.ports.guest_streams import NotReached

CONNECT_LIMIT_S = 5.0  # a program that takes no connections for so long is busy with something else
TRY_AGAIN_S = 0.05
_CREDENTIALS = struct.Struct("3i")  # process, user, group


class TakesNone(NotReached):
    """Somebody listens, and as many wait there already as may."""


async def connected(scratch_dir: Path, name: str, users: Container[int] | None = None) -> socket.socket:
    """Holds no thread while the guest lets it wait."""
    now = asyncio.get_running_loop().time
    until_s = now() + CONNECT_LIMIT_S
    while True:
        try:
            return await beside(partial(connect, scratch_dir, name, users))
        except TakesNone:
            if now() >= until_s:
                raise
        await asyncio.sleep(TRY_AGAIN_S)


def connect(scratch_dir: Path, name: str, users: Container[int] | None = None) -> socket.socket:
    """`users`: who may be listening; None: whoever owns the guest's folder. One try."""
    with _opened(scratch_dir, os.O_PATH | os.O_DIRECTORY) as scratch:
        allowed = {os.fstat(scratch).st_uid} if users is None else users
        with (
            _opened(SOCKETS_DIR, os.O_PATH | os.O_DIRECTORY, scratch) as folder,
            _opened(name, os.O_PATH, folder) as found,
        ):
            if not stat.S_ISSOCK(os.fstat(found).st_mode):
                raise NotReached(f"the guest's {name} is no socket")
            return _connected(found, name, allowed)


def _connected(found: int, name: str, allowed: Container[int]) -> socket.socket:
    here = socket.socket(socket.AF_UNIX)
    try:
        here.setblocking(False)
        here.connect(f"/proc/self/fd/{found}")
        _, user, _ = _CREDENTIALS.unpack(
            here.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if user not in allowed:
            raise NotReached(f"the guest's {name} is a socket of somebody else (user {user})")
    except BlockingIOError:
        here.close()
        raise TakesNone(f"the guest's {name} takes no connections just now") from None
    except NotReached:
        here.close()
        raise
    except OSError as error:
        here.close()
        raise NotReached(f"nobody listens at the guest's {name} ({error.strerror or error})") from error
    return here


@contextlib.contextmanager
def _opened(path: Path | str, flags: int, folder: int | None = None) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        name = os.path.basename(path)
        raise NotReached(f"the guest has no {name} ({error.strerror})") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)
