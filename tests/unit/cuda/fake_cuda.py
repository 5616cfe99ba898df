"""A made-up CUDA driver: the states of processes are files, and a plan says what goes wrong. Not NVIDIA's."""

from __future__ import annotations

import ctypes
import json
import os
import time
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "FAKE_CUDA"
RUNNING, LOCKED, CHECKPOINTED, FAILED = range(4)
BAD_STATE, NO_CUDA, NOT_READY = 401, 3, 600


def _folder() -> Path:
    return Path(os.environ[FOLDER_VARIABLE])


def _plan() -> dict[str, Any]:
    path = _folder() / "plan.json"
    plan: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return plan


def _go(pid: int, call: str, needed: int, becomes: int) -> int:
    plan = _plan().get(f"{call}:{pid}")
    if plan == "hang":
        time.sleep(3600)
    if plan is not None:
        return int(plan)
    path = _folder() / str(pid)
    if not path.exists():
        return NO_CUDA
    if int(path.read_text()) != needed:
        return BAD_STATE
    path.write_text(str(becomes))
    with (_folder() / "calls").open("a") as calls:
        calls.write(f"{call} {pid}\n")
    return 0


def cuDriverGetVersion(version: Any) -> int:
    version._obj.value = _plan().get("version", 13_000)
    return 0


def cuInit(flags: int) -> int:
    return 0


def cuCheckpointProcessGetState(pid: int, state: Any) -> int:
    path = _folder() / str(pid)
    if not path.exists():
        return NO_CUDA
    state._obj.value = int(path.read_text())
    return 0


def cuCheckpointProcessLock(pid: int, arguments: ctypes.Array[Any]) -> int:
    assert arguments[0] > 0
    return _go(pid, "lock", RUNNING, LOCKED)


def cuCheckpointProcessCheckpoint(pid: int, arguments: Any) -> int:
    return _go(pid, "checkpoint", LOCKED, CHECKPOINTED)


def cuCheckpointProcessRestore(pid: int, arguments: Any) -> int:
    return _go(pid, "restore", CHECKPOINTED, LOCKED)


def cuCheckpointProcessUnlock(pid: int, arguments: Any) -> int:
    return _go(pid, "unlock", LOCKED, RUNNING)
