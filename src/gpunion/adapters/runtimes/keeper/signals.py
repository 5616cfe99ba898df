"""Which of a guest's processes a signal is for."""

from __future__ import annotations

import signal

from gpunion.owner_kill.guest import members, read_keeper
from gpunion.owner_kill.processes import process_table

# Their default is to end the process: sent to one that does not listen they would destroy what they ask
# to be saved.
REQUESTS = (signal.SIGUSR1, signal.SIGUSR2)


def listeners(guest_dir: str, signum: int, *, sandboxed: bool) -> set[tuple[int, int]]:
    """(pid, start ticks) of those who catch it. None do: all of them, but nobody for a request.

    So `sh -c "python train.py"` is as good as `python train.py`: the shell neither dies of the signal nor
    keeps it from the program.
    """
    keeper = read_keeper(guest_dir)
    if keeper is None or not keeper.alive():
        return set()
    found = members(guest_dir)
    if sandboxed:
        table = process_table()
        own = {pid for pid, (parent, _) in table.items() if parent == keeper.pid}
        # Bubblewrap's two processes are ours: the monitor outside, and the first one of the namespace.
        found = {(pid, ticks) for pid, ticks in found if pid not in own and not _first_in_namespace(pid)}
    catching = {(pid, ticks) for pid, ticks in found if _catches(pid, signum)}
    if catching or signum in REQUESTS:
        return catching
    return found


def _catches(pid: int, signum: int) -> bool:
    mask = _status_field(pid, "SigCgt:")
    return bool(mask) and bool(int(mask[0], 16) >> (signum - 1) & 1)


def _first_in_namespace(pid: int) -> bool:
    return _status_field(pid, "NSpid:")[-1:] == ["1"]


def _status_field(pid: int, name: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next((line.split()[1:] for line in file if line.startswith(name)), [])
    except OSError:
        return []
