"""Sends somebody into a guest, and gives the agent the connection to what is found there: `guest_entry`."""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from gpunion.adapters.runtimes.keeper.guest_dir import PACKAGE_DIR
from gpunion.adapters.runtimes.keeper.streams.threads import beside
from gpunion.owner_kill.guest import members, read_keeper
from gpunion.ports.guest_streams import GuestStream, NotReached
from gpunion.tunnel.messages import PIECE_BYTES
from gpunion.tunnel.targets import Port, Terminal

ENTRY = "gpunion.adapters.runtimes.keeper.streams.guest_entry"
ANSWER_LIMIT_S = 15.0
ANSWER_BYTES = 512
SHELLS: tuple[tuple[str, ...], ...] = (("/bin/bash", "-i"), ("/bin/sh", "-i"))
OF_A_JOB = b"GPUNION_JOB_ID="


def someone_inside(guest_dir: Path) -> int:
    """A process in a network that is not this machine's. NotReached: there is none."""
    ours = _network_of(os.getpid())
    found = [pid for pid, _ in members(str(guest_dir)) if _network_of(pid) not in ("", ours)]
    if not found:
        raise NotReached("it has no network of its own on this machine, or has ended")
    # Of its program's processes rather than of what shuts them in: those have its variables.
    return min(found, key=lambda pid: (OF_A_JOB not in _environment_of(pid), pid))


def environment_of(pid: int) -> dict[str, str]:
    pairs = _environment_of(pid).split(b"\0")
    texts = (pair.decode(errors="replace").partition("=") for pair in pairs if b"=" in pair)
    return {name: value for name, _, value in texts}


async def port_of(pid: int, place: Port) -> GuestStream:
    here = await _sent({"kind": "port", "pid": pid, "port": place.number})
    with here:
        await _answers(here)
        try:
            words, ancillary, _, _ = here.recvmsg(ANSWER_BYTES, socket.CMSG_SPACE(array.array("i").itemsize))
        except OSError as error:
            raise NotReached(f"it could not be entered: {error.strerror}") from error
    if not ancillary:
        why = words[1:].decode(errors="replace") or "it could not be entered"
        raise NotReached(f"nothing answers at port {place.number} inside it ({why})")
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2])
    found = socket.socket(fileno=descriptors[0])
    return GuestStream(*await asyncio.open_connection(sock=found, limit=PIECE_BYTES))


async def terminal(
    place: Terminal,
    *,
    commands: Sequence[Sequence[str]] = SHELLS,
    environment: Mapping[str, str],
    guest_dir: Path | None = None,
    pid: int = 0,
    user: int = 0,
    directory: str = "/",
) -> GuestStream:
    """`pid`: of the sandbox that is to be entered; 0: `commands` go in by themselves."""
    keeper = None if guest_dir is None else read_keeper(str(guest_dir))
    plan = {
        "kind": "terminal",
        "pid": pid,
        "user": user,
        "cgroup": "" if keeper is None else keeper.cgroup,
        "directory": directory,
        "commands": [list(words) for words in commands],
        "environment": {**environment, "TERM": "xterm-256color"},
        "rows": place.rows,
        "columns": place.columns,
    }
    here = await _sent(plan)
    try:
        await _answers(here)
        if (answer := here.recv(1)) != b"+":
            why = here.recv(ANSWER_BYTES) if answer else b""
            raise NotReached(why.decode(errors="replace") or "it could not be entered")
    except OSError as error:
        here.close()
        if isinstance(error, NotReached):
            raise
        raise NotReached(f"it could not be entered: {error.strerror}") from error
    except asyncio.CancelledError:
        here.close()
        raise
    return GuestStream(*await asyncio.open_unix_connection(sock=here, limit=PIECE_BYTES))


async def _answers(here: socket.socket) -> None:
    """Waits for it with the loop: a guest decides how long it takes, and threads are few."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()

    def look() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(here, look)
    try:
        async with asyncio.timeout(ANSWER_LIMIT_S):
            await readable
    except TimeoutError:
        raise NotReached("it could not be entered in time") from None
    finally:
        loop.remove_reader(here)


async def _sent(plan: Mapping[str, object]) -> socket.socket:
    spawning = asyncio.ensure_future(beside(partial(_spawn, plan)))
    try:
        # Whoever asked may leave meanwhile, and a thread cannot be called back.
        here, process = await asyncio.shield(spawning)
    except asyncio.CancelledError:
        spawning.add_done_callback(_let_go)
        raise
    except OSError as error:
        raise NotReached(f"nobody can be sent into it: {error.strerror}") from error
    _collect_at_its_end(process)
    return here


def _spawn(plan: Mapping[str, object]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    here, there = socket.socketpair(socket.AF_UNIX)
    told = os.memfd_create("plan")
    try:
        os.write(told, json.dumps(plan).encode())
        os.lseek(told, 0, os.SEEK_SET)
        process = subprocess.Popen(
            [sys.executable, "-S", "-P", "-m", ENTRY, str(there.fileno()), str(told)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath, "PYTHONPATH": str(PACKAGE_DIR.parent), "LC_ALL": "C.UTF-8"},
            pass_fds=(there.fileno(), told),
            start_new_session=True,
        )
    except BaseException:
        here.close()
        raise
    finally:
        there.close()
        os.close(told)
    here.setblocking(False)
    return here, process


def _let_go(spawning: asyncio.Future[tuple[socket.socket, subprocess.Popen[bytes]]]) -> None:
    if spawning.cancelled() or spawning.exception() is not None:
        return
    here, process = spawning.result()
    here.close()
    _collect_at_its_end(process)


def _collect_at_its_end(process: subprocess.Popen[bytes]) -> None:
    """A shell lasts as long as its user likes: no thread waits for it."""
    loop, ended = asyncio.get_running_loop(), os.pidfd_open(process.pid)

    def collect() -> None:
        loop.remove_reader(ended)
        os.close(ended)
        process.wait()

    loop.add_reader(ended, collect)  # the loop keeps `process` until then


def _network_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/net")
    return ""


def _environment_of(pid: int) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()
    return b""
