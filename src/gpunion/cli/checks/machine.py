"""Checks of the machine itself: what lends GPUs safely here, and what is in the way."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from gpunion.cli.checks.finding import Finding, missing, ok, warning
from gpunion.cli.quantities import shown_size

PYTHON_LEAST = (3, 11)
# Below the first nothing is safe to write, below the second a large checkpoint may not fit.
DISK_LEAST_BYTES, DISK_COMFORTABLE_BYTES = 256 * 1024**2, 4 * 1024**3
LIBRARIES = {
    "cli": ("httpx", "rich"),
    "agent": ("msgspec", "websockets", "httpx", "blake3", "zstandard", "structlog"),
    "coordinator": (
        "fastapi",
        "uvicorn",
        "websockets",
        "msgspec",
        "sqlalchemy",
        "alembic",
        "aiosqlite",
        "structlog",
    ),
}


def check_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_LEAST:
        return missing("python", f"Python {version}", "install Python 3.11 or newer")
    return ok("python", f"Python {version}")


def check_libraries(joined: bool) -> Finding:
    """Without those for the command line nothing can be asked; the others only matter in their role."""
    lacking = {
        extra: [name for name in names if find_spec(name) is None] for extra, names in LIBRARIES.items()
    }
    absent = [extra for extra, names in lacking.items() if names]
    if not absent:
        return ok("libraries", "all of cli, agent and coordinator are installed")
    found = "; ".join(f"{extra}: no {', '.join(lacking[extra])}" for extra in absent)
    mend = f"python -m pip install 'gpunion[{','.join(absent)}]'"
    needed = {"cli", "agent"} if joined else {"cli"}
    return missing("libraries", found, mend) if needed & set(absent) else warning("libraries", found, mend)


def check_runtime(runtime: str, *, needed: bool) -> Finding:
    """Tried, not looked for: a kernel may forbid what the program can do."""
    try:
        from gpunion.agent.compose import try_runtime
    except ImportError as error:
        return warning(runtime, f"not tried: no {error.name} here", "python -m pip install 'gpunion[agent]'")
    tried = try_runtime(runtime)
    if not tried.trouble:
        return ok(runtime, f"it works: {tried.described}")
    return (missing if needed else warning)(runtime, tried.trouble, tried.mend)


def check_cgroup() -> Finding:
    """Where the agent may make cgroups it can end a guest as one and limit its memory."""
    try:
        text = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        text = ""
    own = next((line.partition("0::")[2] for line in text.splitlines() if line.startswith("0::")), None)
    mend = "start the agent in a unit of its own: systemd-run --user --scope -p Delegate=yes gpunion agent"
    for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        folder = os.path.normpath(f"{mount}/{own}")
        if own is not None and os.path.exists(os.path.join(folder, "cgroup.procs")):
            if os.access(folder, os.W_OK):
                return ok("cgroup", f"guests get cgroups of their own in {folder}")
            return warning(
                "cgroup", f"{folder} is not ours: guests are found by other means, unlimited", mend
            )
    return warning("cgroup", "no cgroup version 2 here: guests are found by other means, unlimited", mend)


def check_state_dir(folder: Path) -> Finding:
    name = "state directory"
    if not folder.exists():
        if can_be_made(folder):
            return ok(name, f"{folder} is not there yet; gpunion join makes it")
        return warning(
            name, f"{folder} cannot be made by you", "choose another: export GPUNION_STATE_DIR=DIR"
        )
    details = folder.stat()
    if not os.access(folder, os.W_OK | os.X_OK):
        return missing(name, f"you cannot write to {folder}", f"sudo chown -R $(id -un) {folder}")
    if details.st_mode & 0o022:
        return missing(name, f"other users can write to {folder}", f"chmod 700 {folder}")
    return ok(name, f"{folder} is writable, and by nobody else")


def check_disk(name: str, folder: Path) -> Finding:
    place = _first_existing(folder) or Path("/")
    free = shutil.disk_usage(place).free
    found = f"{shown_size(free)} free for {folder}"
    mend = f"make room: du -xsh {place}/* | sort -h"
    if free < DISK_LEAST_BYTES:
        return missing(name, found, mend)
    if free < DISK_COMFORTABLE_BYTES:
        return warning(name, found, mend)
    return ok(name, found)


def can_be_made(folder: Path) -> bool:
    place = _first_existing(folder)
    return place is not None and place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def _first_existing(folder: Path) -> Path | None:
    return next((place for place in (folder, *folder.parents) if place.exists()), None)
