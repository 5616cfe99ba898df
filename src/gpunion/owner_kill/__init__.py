"""Ends every guest of this machine, now.

It reads the state directory and the kernel and asks nobody: not the agent, which may hang or be stopped, and
not the coordinator. It imports almost nothing, so that it starts at once and works where little else does.
The same few functions are how the sandbox runtime and its keepers find and end one guest's processes.
"""

from __future__ import annotations

import os
import time

from gpunion.files import read_json, write_json
from gpunion.owner_kill.guest import (
    KILLED_BY_OWNER,
    clear_cgroup,
    guest_dirs,
    lives,
    members,
    note_kill,
    settle,
    strike,
)

OWNER_KILL_FILE = os.path.join("owner", "killed.json")

# A keeper that sees its guest die writes that down within milliseconds. One that has not by now is stuck and
# goes as well.
KEEPER_PATIENCE_S = 0.5
# Death takes the kernel microseconds, or as long as a process waits for a disk or a driver. Then we say so.
KILL_LIMIT_S = 10.0
SCAN_PAUSE_S = 0.005


class KillReceipt:
    """What was ended, in how long, and what could not be done."""

    __slots__ = ("ended", "survivors", "took_s", "trouble")

    def __init__(self, ended: list[str], survivors: list[int], took_s: float, trouble: str) -> None:
        self.ended = ended  # run ids
        self.survivors = survivors  # pids
        self.took_s = took_s
        self.trouble = trouble

    @property
    def complete(self) -> bool:
        return not self.survivors and not self.trouble


def kill_all(state_dir: str | os.PathLike[str]) -> KillReceipt:
    """End every guest under `state_dir`. May be called at any time and any number of times."""
    began_s = time.monotonic()
    root = os.fspath(state_dir)
    # First, so that a keeper about to start its guest sees it: either it sees this, or we see the keeper.
    trouble = _raise_flag(root)
    ended: set[str] = set()
    while True:
        living = [guest_dir for guest_dir in guest_dirs(root) if lives(guest_dir)]
        waited_s = time.monotonic() - began_s
        if not living or waited_s > KILL_LIMIT_S:
            break
        for guest_dir in living:
            ended.add(os.path.basename(guest_dir))
            note_kill(guest_dir, KILLED_BY_OWNER)
            strike(guest_dir, keeper_too=waited_s > KEEPER_PATIENCE_S)
        time.sleep(SCAN_PAUSE_S)
    for guest_dir in guest_dirs(root):
        if guest_dir in living:
            continue
        if os.path.basename(guest_dir) in ended:
            settle(guest_dir, KILLED_BY_OWNER)
        else:
            clear_cgroup(guest_dir)  # of one whose keeper had died before
    survivors = sorted(pid for guest_dir in living for pid, _ in members(guest_dir))
    return KillReceipt(sorted(ended), survivors, time.monotonic() - began_s, trouble)


def killed_at_s(state_dir: str | os.PathLike[str]) -> float | None:
    """When the owner killed everything (Unix time), while that stands; None when guests may start."""
    path = os.path.join(os.fspath(state_dir), OWNER_KILL_FILE)
    if not os.path.lexists(path):
        return None
    try:
        return float((read_json(path) or {}).get("at", 0.0))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 0.0  # unreadable, but it is there: the owner's word stands


def lift_kill(state_dir: str | os.PathLike[str]) -> None:
    """The owner shares again (`gpunion resume`)."""
    try:
        os.unlink(os.path.join(os.fspath(state_dir), OWNER_KILL_FILE))
    except FileNotFoundError:
        return


def _raise_flag(root: str) -> str:
    flag = os.path.join(root, OWNER_KILL_FILE)
    try:
        os.makedirs(os.path.dirname(flag), mode=0o755, exist_ok=True)
        write_json(flag, {"at": time.time()})
    except OSError as error:
        try:  # that it is there is enough, and an empty one takes no room on a full disk
            os.close(os.open(flag, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644))
        except OSError:
            return f"the agent could not be told to start nothing more ({error.strerror}); stop it as well"
    return ""


def main(argv: list[str]) -> int:
    """The command `gpunion kill`; returns its exit status."""
    from gpunion.owner_kill.command import main as command  # the library's callers need no text

    return command(argv)
