"""How a keeper begins, whatever it keeps: alone, and not against the owner's word."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal

from gpunion.adapters.runtimes.keeper.names import KEPT, LOCK_FILE
from gpunion.files import read_json
from gpunion.owner_kill import killed_at_s
from gpunion.owner_kill.guest import EXIT_FILE, KEEPER_FILE, KILL_FILE, KILLED_BY_OWNER

PR_SET_PDEATHSIG = 1
COMMAND_NOT_RUN = 127  # a shell's word for it

_libc = ctypes.CDLL(None, use_errno=True)


def begin(argv: list[str]) -> int | None:
    """The descriptor for the answer; None when the guest is kept or over, which has been answered."""
    guest_dir, answer_fd = argv[0], int(argv[1])
    os.set_inheritable(answer_fd, False)  # it came to us that way and is nothing for the guest
    lock = os.open(os.path.join(guest_dir, LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        answer(answer_fd, KEPT)
        return None
    if any(os.path.exists(os.path.join(guest_dir, name)) for name in (KEEPER_FILE, EXIT_FILE)):
        answer(answer_fd, KEPT)  # a run starts at most once, whatever became of it
        return None
    return answer_fd


def refusal(guest_dir: str) -> str:
    """Why the guest must not start after all. Asked after the introduction: see owner_kill.kill_all."""
    state_dir = os.path.dirname(os.path.dirname(guest_dir))
    if killed_at_s(state_dir) is not None:
        return KILLED_BY_OWNER
    return noted_reason(guest_dir)


def noted_reason(guest_dir: str) -> str:
    return str((read_json(os.path.join(guest_dir, KILL_FILE)) or {}).get("reason", ""))


def answer(descriptor: int, word: bytes) -> None:
    # The agent may have died meanwhile; the guest is kept all the same.
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptor, word)
    os.close(descriptor)


def die_with(keeper: int) -> None:
    """After every change of user: the kernel forgets the wish then."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:  # it died before the line above could matter
        os._exit(COMMAND_NOT_RUN)
