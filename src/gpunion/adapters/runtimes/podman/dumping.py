"""Taking a container as it is: frozen, written out by CRIU, and frozen still when that is done.

Podman and runc drive CRIU. A dump that takes too long is ended with all three; CRIU's foothold in the guest
leaves by itself when CRIU is gone, so that the guest can go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from gpunion.adapters.runtimes.containers.container_command import Engine, EngineTrouble, client_environment
from gpunion.adapters.runtimes.containers.freezer import freezer_of
from gpunion.adapters.runtimes.podman.criu_errors import complaint_in
from gpunion.ports.checkpointer import DumpRefused

IMAGES_DIR, SHARED_MEMORY_FILE, RECIPE_FILE, ENTER_FILE = "images", "shm.tar", "recipe.json", "enter"
# Podman's names for the same two, in a container's own directory.
PODMAN_IMAGES, PODMAN_SHARED_MEMORY, DUMP_LOG = "checkpoint", "devshm-checkpoint.tar", "dump.log"

FREEZE_LIMIT_S = 5.0  # a process deep in a driver or on a dead network disk may never stand still
ROOM_FACTOR = 1.2  # pages, and what is around them
TOO_LONG = "it took too long"


def dump_container(
    engine: Engine, container: str, pids: set[int], into: Path, limit_s: float, *, parked: bool = False
) -> None:
    """Blocks. On return the container stands still and `into` has its images; otherwise DumpRefused, and it
    goes on, unless it is `parked`."""
    until_s = time.monotonic() + limit_s
    freezer = freezer_of(min(pids)) if pids else None
    if freezer is None:
        raise DumpRefused("the guest has no cgroup of its own that could be frozen")
    home = container_home(engine, container)
    _check_room(pids, home, into)
    try:
        if not freezer.freeze(min(limit_s, FREEZE_LIMIT_S)):
            raise DumpRefused(f"its processes did not stand still within {FREEZE_LIMIT_S:.0f} s")
        words = ["container", "checkpoint", "--leave-running", "--keep", "--file-locks", container]
        trouble = _call_in_time(engine, words, until_s - time.monotonic())
        if trouble:
            raise DumpRefused((complaint_in(home / DUMP_LOG) or trouble) if trouble != TOO_LONG else trouble)
        if not freezer.frozen():
            raise DumpRefused("it went on before its files could be set aside")
        into.mkdir(mode=0o700, parents=True)
        shutil.move(home / PODMAN_IMAGES, into / IMAGES_DIR)
        with contextlib.suppress(FileNotFoundError):
            shutil.move(home / PODMAN_SHARED_MEMORY, into / SHARED_MEMORY_FILE)
    except BaseException:
        if parked:  # CRIU lets what it looks at go on for moments, and may have been ended in one of them
            freezer.hold(FREEZE_LIMIT_S)
        else:
            freezer.thaw()
        shutil.rmtree(into, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(home / PODMAN_IMAGES, ignore_errors=True)


def container_home(engine: Engine, container: str) -> Path:
    """Where Podman keeps what belongs to one container."""
    try:
        record = json.loads(engine.call("inspect", "--type", "container", container))[0]
    except EngineTrouble as trouble:
        raise DumpRefused(str(trouble)) from trouble
    return Path(str(record["StaticDir"]))


def resident_bytes(pids: set[int]) -> int:
    """What of the processes is in memory and in no file: about what a dump will weigh."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("RssAnon:", "RssShmem:")):
                    total += int(line.split()[1]) * 1024
    return total


def _check_room(pids: set[int], home: Path, into: Path) -> None:
    needs = ROOM_FACTOR * resident_bytes(pids)
    for place in (home, into.parent):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = shutil.disk_usage(place).free
        if free < needs:
            raise DumpRefused(f"{place} has {free} bytes free, the dump needs about {needs:.0f}")


def _call_in_time(engine: Engine, words: list[str], limit_s: float) -> str:
    """Like Engine.call, but nothing of it goes on after the limit. Returns what went wrong."""
    process = subprocess.Popen(
        [*engine.program, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=client_environment(),
        cwd="/",
        start_new_session=True,
    )
    try:
        _, said = process.communicate(timeout=max(0.0, limit_s))
    except subprocess.TimeoutExpired:
        _end_group(process)
        return TOO_LONG
    if process.returncode == 0:
        return ""
    return said.decode(errors="replace").strip()[-400:] or f"podman ended with {process.returncode}"


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
