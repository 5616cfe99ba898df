"""A door in a guest's wall: a socket that listens inside the guest's network and is held outside.

No address, route or rule is made for it, so there is nothing a guest could get around: its network has a
loopback and nothing else, and behind the one port on it stands a doorman (see `doorman`). Needs no root
where the guest's namespaces belong to this user.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import sys
import time

from gpunion.adapters.runtimes.keeper.begin import die_with
from gpunion.owner_kill.processes import descendants, process_table

PORT = 3128  # inside, where no other program runs yet: the usual one of a proxy
BACKLOG = 64
OPEN_LIMIT_S = 10.0
OPEN_FILES_MAX = 600  # two for each of a doorman's connections, and some
PAUSE_S = 0.005
# From the range that Linux distributions assign to nobody; no guest is this user.
DOORMAN_ID = 60_991
LIST_FILE = "egress.json"

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NS_GET_USERNS = 0xB701

_libc = ctypes.CDLL(None, use_errno=True)


class NoDoor(OSError):
    """Why a guest cannot be given a way out, in words for the one who wanted it."""


def proxy_variables() -> dict[str, str]:
    address = f"http://127.0.0.1:{PORT}"
    return dict.fromkeys(("https_proxy", "HTTPS_PROXY", "http_proxy", "GPUNION_PROXY"), address)


def open_door(pid: int, state_dir: str) -> None:
    """Let a doorman stand in the network of process `pid`. He ends with the caller."""
    listener = _listener(pid)
    try:
        allowed = os.open(os.path.join(state_dir, LIST_FILE), os.O_RDONLY)
    except OSError as error:
        raise NoDoor(f"the owner's list of places cannot be read: {error.strerror}") from error
    _hire(listener.detach(), allowed)


def first_inside(ancestor: int) -> int:
    """A process of the sandbox that `ancestor` is making."""
    until_s = time.monotonic() + OPEN_LIMIT_S
    while time.monotonic() < until_s:
        table = process_table()
        for pid in sorted(descendants(ancestor, table)):
            if os.path.exists(f"/proc/{pid}") and _network_of(pid) not in ("", _network_of(os.getpid())):
                return pid
        if ancestor not in table:
            break
        time.sleep(PAUSE_S)
    raise NoDoor("the sandbox did not come up")


def _network_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _listener(pid: int) -> socket.socket:
    """Made by a process that goes in for it and never comes back."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        child = os.fork()
        if child == 0:
            _make_inside(pid, there)
        there.close()
        words, ancillary, _, _ = here.recvmsg(512, socket.CMSG_SPACE(array.array("i").itemsize))
        os.waitpid(child, 0)
    if not ancillary:
        raise NoDoor(words.decode(errors="replace") or "it could not be entered")
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2])
    return socket.socket(fileno=descriptors[0])


def _make_inside(pid: int, answers: socket.socket) -> None:
    try:
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        if os.geteuid() != 0:
            _enter(fcntl.ioctl(network, NS_GET_USERNS), CLONE_NEWUSER)
        _enter(network, CLONE_NEWNET)
        listener = _listen()
        fds = array.array("i", [listener.fileno()])
        answers.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds.tobytes())])
    except OSError as error:
        answers.send(f"this agent may not open the guest's network: {error.strerror}".encode())
    finally:
        os._exit(0)


def _listen() -> socket.socket:
    until_s = time.monotonic() + OPEN_LIMIT_S
    while True:
        listener = socket.socket()
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", PORT))
            listener.listen(BACKLOG)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRNOTAVAIL or time.monotonic() > until_s:
                raise
        time.sleep(PAUSE_S)  # its loopback is not up yet


def _enter(namespace: int, kind: int) -> None:
    if _libc.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _hire(listener: int, allowed: int) -> None:
    """Forked and not executed: the user he becomes may not even reach this Python."""
    keeper = os.getpid()
    if os.fork() != 0:
        os.close(listener)
        os.close(allowed)
        return
    try:
        _become_doorman(listener, allowed, keeper)
    except BaseException as error:
        print(f"doorman: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def _become_doorman(listener: int, allowed: int, keeper: int) -> None:
    from gpunion.adapters.runtimes.keeper import (
        egress_proxy as doorman,  # a keeper without a door has no need of all that
    )

    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)
    for descriptor in os.listdir("/proc/self/fd"):
        if int(descriptor) not in (2, listener, allowed):
            with contextlib.suppress(OSError):
                os.close(int(descriptor))
    os.chdir("/")
    # A guest that knocks without end waits outside, and not in the host's memory.
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES_MAX, OPEN_FILES_MAX))
    doorman.prepare()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(DOORMAN_ID, DOORMAN_ID, DOORMAN_ID)
        os.setresuid(DOORMAN_ID, DOORMAN_ID, DOORMAN_ID)
    die_with(keeper)
    doorman.stand(listener, allowed)
