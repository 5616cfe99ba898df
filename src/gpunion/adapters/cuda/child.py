"""The short-lived process that asks the driver to move GPU memory: a driver that hangs stops nobody else.

    python -m gpunion.adapters.cuda.child park LIMIT_MS PID...       lock, then GPU memory to host memory
    python -m gpunion.adapters.cuda.child unpark LIMIT_MS PID...     back, and unlock: from any state
    python -m gpunion.adapters.cuda.child states LIMIT_MS PID...

One line of JSON comes out. All processes or none: what cannot be done for one is undone for all.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Sequence

from gpunion.adapters.cuda.driver import NOT_INITIALIZED, CudaTrouble, Library, State, open_library

# Tests put a driver of theirs in the place of NVIDIA's; nothing else sets this.
STAND_IN_VARIABLE = "GPUNION_TEST_CUDA"


def park(library: Library, pids: Sequence[int], limit_ms: int) -> dict[str, float]:
    """Locked all together first: processes that wait for each other's GPU work come to rest together."""
    began_s = time.monotonic()
    pids = _with_cuda(library, pids)
    try:
        for pid in pids:
            if library.state(pid) is State.RUNNING:
                library.lock(pid, limit_ms)
        locked_s = time.monotonic()
        for pid in pids:
            if library.state(pid) is State.LOCKED:
                library.checkpoint(pid)
    except CudaTrouble:
        _undo(library, pids)
        raise
    return {"lock_s": locked_s - began_s, "move_s": time.monotonic() - locked_s}


def unpark(library: Library, pids: Sequence[int], limit_ms: int) -> dict[str, float]:
    del limit_ms
    began_s = time.monotonic()
    pids = _with_cuda(library, pids)
    for pid in pids:
        if library.state(pid) is State.CHECKPOINTED:
            library.restore(pid)
    moved_s = time.monotonic()
    for pid in pids:
        if library.state(pid) is State.LOCKED:
            library.unlock(pid)
    failed = [pid for pid in pids if library.state(pid) is not State.RUNNING]
    if failed:
        raise CudaTrouble(f"process {failed[0]} does not compute again: its state at the driver is lost")
    return {"move_s": moved_s - began_s, "unlock_s": time.monotonic() - moved_s}


def states(library: Library, pids: Sequence[int], limit_ms: int) -> dict[str, str]:
    """Of those that the driver knows; the others do not use CUDA."""
    del limit_ms
    found: dict[str, str] = {}
    for pid in pids:
        try:
            found[str(pid)] = library.state(pid).name.lower()
        except CudaTrouble:
            continue
    return found


def _with_cuda(library: Library, pids: Sequence[int]) -> list[int]:
    """A process that only inherited a card's descriptor from its parent has nothing there to move."""
    found = []
    for pid in pids:
        try:
            library.state(pid)
        except CudaTrouble as trouble:
            if trouble.code == NOT_INITIALIZED:
                continue
        found.append(pid)
    return found


def _undo(library: Library, pids: Sequence[int]) -> None:
    for pid in pids:
        try:
            unpark(library, [pid], 0)
        except CudaTrouble:
            continue  # the first trouble is the one to tell; the caller looks at the states afterwards


VERBS = {"park": park, "unpark": unpark, "states": states}


def main(argv: list[str]) -> int:
    began_s = time.monotonic()
    verb, limit_ms, *pids = argv
    try:
        stand_in = os.environ.get(STAND_IN_VARIABLE)
        library = Library(importlib.import_module(stand_in)) if stand_in else open_library()
        open_s = time.monotonic() - began_s
        done = VERBS[verb](library, [int(pid) for pid in pids], int(limit_ms))
        answer = {"done": done, "open_s": open_s, "version": library.version}
    except CudaTrouble as trouble:
        answer = {"trouble": str(trouble), "code": trouble.code}
    print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
