"""Moves the GPU memory of whole guests to host memory and back, through the driver, within a time.

Every question is asked by a process of its own (`child`) that is killed when it takes too long. A guest is
then let go again by another one, so that nobody waits for a lock that nobody will open.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.ports.parking import CannotMove

PACKAGE_PARENT = Path(__file__).resolve().parents[3]
CHILD = "gpunion.adapters.cuda.child"
# What opening the driver's library takes where cards sleep, on top of the time for the work itself.
START_S = 3.0
# To let go of a guest after a failed try. A guest that has nothing to move back is let go in milliseconds.
UNDO_LIMIT_S = 20.0
NAME_BYTES = 15  # of a process, as the kernel tells it
MPS_NAMES = {name[:NAME_BYTES] for name in ("nvidia-cuda-mps-server", "nvidia-cuda-mps-control")}
CARD_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm")


class NotParked(Exception):
    """Why GPU memory was not moved, in words. The guest computes on as if nobody had asked."""


class NotUnparked(Exception):
    """Why a guest did not get its GPU memory back, in words. It cannot go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    pids: tuple[int, ...]
    took_s: float  # all of it, the process that did it included
    driver_s: float  # what the driver took of it


def computing(pids: Iterable[int]) -> tuple[int, ...]:
    """Those of the processes that have a GPU open."""
    return tuple(pid for pid in sorted(pids) if _has_a_card_open(pid))


def why_not(gpu_uuids: Iterable[str], processes: str = "/proc") -> str:
    """Empty where nothing speaks against moving the memory of guests on these GPUs; else why not."""
    if any(uuid.startswith("MIG-") for uuid in gpu_uuids):
        return "its GPU is a MIG slice, and the driver moves memory of whole GPUs only"
    if any(_name_of(processes, entry) in MPS_NAMES for entry in os.listdir(processes) if entry.isdecimal()):
        return "GPUs are shared through MPS here, and the driver cannot move memory then"
    return ""


def park(pids: Sequence[int], limit_s: float) -> Moved:
    """GPU memory of these processes to host memory, of all or of none. Blocks, not much longer than said."""
    try:
        return _moved("park", pids, limit_s)
    except _Trouble as trouble:
        _let_go(pids)
        raise NotParked(str(trouble)) from trouble


def unpark(pids: Sequence[int], limit_s: float) -> Moved:
    """All of it back. The processes must not be frozen: what they do for it, they do themselves."""
    try:
        return _moved("unpark", pids, limit_s)
    except _Trouble as trouble:
        raise NotUnparked(str(trouble)) from trouble


class CudaMemory:
    """Implements `ports.parking.GpuMemory`."""

    def why_not(self, uuids: Sequence[str]) -> str:
        return why_not(uuids)

    def computing(self, pids: frozenset[int]) -> tuple[int, ...]:
        return computing(pids)

    def to_host(self, pids: Sequence[int], limit_s: float) -> None:
        try:
            park(pids, limit_s)
        except NotParked as trouble:
            raise CannotMove(str(trouble)) from trouble

    def to_gpu(self, pids: Sequence[int], limit_s: float) -> None:
        try:
            unpark(pids, limit_s)
        except NotUnparked as trouble:
            raise CannotMove(str(trouble)) from trouble


def states(pids: Sequence[int], limit_s: float = START_S) -> dict[int, str]:
    """As the driver has them: running, locked, checkpointed, failed. Empty where it does not answer."""
    try:
        done, _ = _ask("states", pids, limit_s)
    except _Trouble:
        return {}
    return {int(pid): str(state) for pid, state in done.items()}


def cannot_move(limit_s: float = START_S) -> str:
    """Why this machine's driver moves no GPU memory at all; empty where it does. Blocks, not much longer."""
    try:
        _ask("states", (), limit_s)
    except _Trouble as trouble:
        return str(trouble)
    return ""


class _Trouble(Exception):
    pass


def _moved(verb: str, pids: Sequence[int], limit_s: float) -> Moved:
    began_s = time.monotonic()
    done, _ = _ask(verb, pids, limit_s)
    driver_s = sum(float(value) for value in done.values())
    return Moved(pids=tuple(pids), took_s=time.monotonic() - began_s, driver_s=driver_s)


def _ask(verb: str, pids: Sequence[int], limit_s: float) -> tuple[dict[str, Any], bytes]:
    limit_ms = max(1, int(limit_s * 1000))
    command = [sys.executable, "-P", "-m", CHILD, verb, str(limit_ms), *map(str, pids)]
    paths = [str(PACKAGE_PARENT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    try:
        line, words = child.communicate(timeout=limit_s + START_S)
    except subprocess.TimeoutExpired:
        raise _Trouble(f"the driver was not done within {limit_s:g} s") from None
    finally:
        child.kill()  # one that is stuck in the driver stays until the driver lets it go; nobody waits for it
    try:
        answer = json.loads(line)
    except ValueError:
        last = words.decode(errors="replace").strip().rpartition("\n")[2]
        raise _Trouble(f"the process that asks the driver died ({last or 'without a word'})") from None
    if "trouble" in answer:
        raise _Trouble(str(answer["trouble"]))
    return answer["done"], words


def _let_go(pids: Sequence[int]) -> None:
    try:
        _ask("unpark", pids, UNDO_LIMIT_S)
    except _Trouble:
        return  # what can be said was said; a guest that is stuck is ended by its limits


def _has_a_card_open(pid: int) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(_target(f"{folder}/{name}").startswith(CARD_FILES) for name in os.listdir(folder))
    except OSError:
        return False


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _name_of(processes: str, entry: str) -> str:
    try:
        with open(f"{processes}/{entry}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
