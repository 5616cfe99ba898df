"""Goes into one guest for somebody: `python -m ... FD PLAN`, a process that answers at descriptor FD.

`port`: hands back a socket connected to a port on the guest's own loopback, and ends. `terminal`: runs a
shell on a terminal and carries it, until either side ends. Into a sandbox it goes by the namespaces of a
process there and becomes the guest's user, in the guest's cgroup, before anything of the guest's is run; a
container's engine has a command for it. One thread, and nothing is imported once it is inside.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import json
import os
import pty
import resource
import select
import signal
import socket
import struct
import sys
import termios

from gpunion.adapters.runtimes.keeper import cgroups
from gpunion.adapters.runtimes.keeper.proxy_socket import CLONE_NEWNET, CLONE_NEWUSER, NS_GET_USERNS

KINDS = ("net", "uts", "ipc", "cgroup", "pid", "mnt")
CONNECT_LIMIT_S = 10.0
PIECE_BYTES = 32 * 1024
# Of what comes from the user: one byte says what, two how long it is.
HEAD = struct.Struct(">cH")
SIZE = struct.Struct(">HH")  # rows, columns
DATA, RESIZE = b"d", b"r"
PR_SET_NO_NEW_PRIVS, PR_SET_DUMPABLE, PR_SET_PDEATHSIG = 38, 4, 1
PROCESSES_MAX = 4096
NO_SHELL = 127
TYPED_MAX_BYTES = 64 * 1024  # that no program has read yet
TRY_AGAIN_MS = 1000
GONE = select.POLLHUP | select.POLLERR | select.POLLRDHUP

_libc = ctypes.CDLL(None, use_errno=True)


def main(argv: list[str]) -> int:
    here = socket.socket(fileno=int(argv[0]))
    with open(int(argv[1]), encoding="utf-8") as file:  # no word of it shows in a list of processes
        plan = json.load(file)
    try:
        if plan["kind"] == "port":
            _port(here, int(plan["pid"]), int(plan["port"]))
        elif plan["pid"]:
            _terminal_inside(here, plan)
        else:
            _terminal(here, plan)
    except OSError as error:
        here.sendall(f"-{error.strerror or error}".encode()[:500])
    return 0


def _port(here: socket.socket, pid: int, port: int) -> None:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if os.geteuid() != 0:
        _enter(fcntl.ioctl(network, NS_GET_USERNS), CLONE_NEWUSER)
    _enter(network, CLONE_NEWNET)
    there = socket.create_connection(("127.0.0.1", port), CONNECT_LIMIT_S)
    there.setblocking(False)
    words = array.array("i", [there.fileno()]).tobytes()
    here.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, words)])


def _terminal_inside(here: socket.socket, plan: dict[str, object]) -> None:
    pid, user = int(str(plan["pid"])), int(str(plan["user"]))
    namespaces = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in (*KINDS, "user")}
    cgroup = str(plan["cgroup"])
    if cgroup:
        cgroups.enter(cgroup)
    if os.geteuid() == 0:
        os.setgroups([])
    else:
        _enter(fcntl.ioctl(namespaces["net"], NS_GET_USERNS), CLONE_NEWUSER)
    for kind in KINDS:
        _enter(namespaces[kind], 0)
    with contextlib.suppress(OSError):  # it is there already
        _enter(namespaces["user"], CLONE_NEWUSER)
    for descriptor in namespaces.values():  # nothing of the host stays open in a process that is inside
        os.close(descriptor)
    os.chdir(str(plan["directory"]))
    child = os.fork()  # only children are in the guest's process namespace
    if child == 0:
        _die_with_parent()
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # the guest's other programs may not look into it
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = PROCESSES_MAX if hard == resource.RLIM_INFINITY else min(hard, PROCESSES_MAX)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            _terminal(here, plan)
        finally:
            os._exit(0)
    here.close()
    os.waitpid(child, 0)


def _terminal(here: socket.socket, plan: dict[str, object]) -> None:
    commands, environment = plan["commands"], plan["environment"]
    assert isinstance(commands, list)
    assert isinstance(environment, dict)
    child, master = pty.fork()
    if child == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        for words in commands:
            with contextlib.suppress(OSError):
                os.execvpe(words[0], words, environment)
        os.write(2, b"there is no shell here\r\n")
        os._exit(NO_SHELL)
    _resize(master, int(str(plan["rows"])), int(str(plan["columns"])))
    try:
        here.sendall(b"+")
        _carry(here, master)
    finally:
        os.close(master)  # the shell and what it started hear that nobody is there any more
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGHUP)


def _carry(here: socket.socket, master: int) -> None:
    """Never waits to write: where a program reads nothing it still hears that its user is gone."""
    here.setblocking(False)
    os.set_blocking(master, False)
    arrived, typed, shown = bytearray(), bytearray(), bytearray()
    while True:
        full = len(typed) >= TYPED_MAX_BYTES
        ways = select.poll()
        reads = 0 if full else select.POLLIN
        ways.register(here, select.POLLRDHUP | reads | (select.POLLOUT if shown else 0))
        if not shown or typed:
            ways.register(master, (0 if shown else select.POLLIN) | (select.POLLOUT if typed else 0))
        happened = dict(ways.poll(TRY_AGAIN_MS if typed else None))
        if full and happened.get(here.fileno(), 0) & GONE:
            return
        if happened.get(here.fileno(), 0) & ~select.POLLOUT:
            data = _read(here.fileno())
            if data == b"":
                return
            arrived += data or b""
            _obey(arrived, typed, master)
        if not shown and happened.get(master, 0) & ~select.POLLOUT:
            data = _read(master)
            if data == b"":  # its last program has ended
                return
            shown += data or b""
        elif happened.get(master, 0) & GONE:
            typed.clear()  # nobody is left to read it; what was shown is still to be sent
        try:
            _write(master, typed)
        except OSError:
            typed.clear()
        _write(here.fileno(), shown)


def _read(descriptor: int) -> bytes | None:
    """None: nothing just now."""
    try:
        return os.read(descriptor, PIECE_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _write(descriptor: int, data: bytearray) -> None:
    with contextlib.suppress(BlockingIOError):
        while data:
            del data[: os.write(descriptor, data)]


def _obey(arrived: bytearray, typed: bytearray, master: int) -> None:
    while len(arrived) >= HEAD.size:
        kind, size = HEAD.unpack_from(arrived)
        if len(arrived) < HEAD.size + size:
            return
        body = bytes(arrived[HEAD.size : HEAD.size + size])
        del arrived[: HEAD.size + size]
        if kind == DATA:
            typed += body
        elif kind == RESIZE and size == SIZE.size:
            _resize(master, *SIZE.unpack(body))


def _resize(master: int, rows: int, columns: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _enter(namespace: int, kind: int) -> None:
    if _libc.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"this agent may not enter the guest: {os.strerror(number)}")


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
