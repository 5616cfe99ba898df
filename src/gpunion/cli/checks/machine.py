"""Checks of the machine itself: what lends GPUs safely here, and what is in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from gpunion.cli.agent_socket import END_OR_START, guests_without_agent
from gpunion.cli.checks.finding import Finding, missing, ok, warning
from gpunion.cli.quantities import shown_size
from gpunion.domain.nodes.node import DISK_SHORT_BYTES
from gpunion.text import counted

PYTHON_LEAST = (3, 11)
PROBE_LIMIT_S = 10.0  # a driver that takes longer hangs
# Below the first nothing is safe to write, below the second a large checkpoint may not fit.
DISK_LEAST_BYTES, DISK_COMFORTABLE_BYTES = 256 * 1024**2, 4 * 1024**3
# Where no systemd runs the machine, there is nothing that we could install into.
BY_INIT = (
    "have it started at boot by what starts this machine's other programs (a line @reboot of cron, say):"
)
LIBRARIES = {
    "cli": ("httpx", "rich"),
    "agent": ("msgspec", "websockets", "httpx", "blake3", "zstandard", "structlog", "cryptography"),
    "coordinator": (
        "fastapi",
        "uvicorn",
        "websockets",
        "msgspec",
        "sqlalchemy",
        "alembic",
        "aiosqlite",
        "structlog",
        "cryptography",
    ),
}


def check_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_LEAST:
        return missing("python", f"Python {version}", "install Python 3.11 or newer")
    return ok("python", f"Python {version}")


def check_libraries(joined: bool) -> Finding:
    """Without those for the command line nothing can be asked; the others only matter in their role, and a
    machine that lends has one."""
    roles = ("cli", "agent") if joined else tuple(LIBRARIES)
    lacking = {extra: [name for name in LIBRARIES[extra] if find_spec(name) is None] for extra in roles}
    absent = [extra for extra, names in lacking.items() if names]
    if not absent:
        return ok("libraries", f"all of {', '.join(roles)} are installed")
    found = "; ".join(f"{extra}: no {', '.join(lacking[extra])}" for extra in absent)
    mend = f"python -m pip install 'gpunion[{','.join(absent)}]'"
    needed = {"cli", "agent"} if joined else {"cli"}
    return missing("libraries", found, mend) if needed & set(absent) else warning("libraries", found, mend)


def check_runtime(runtime: str, *, needed: bool) -> Finding:
    """Tried, not looked for: a kernel may forbid what the program can do."""
    try:
        from gpunion.agent.compose.runtimes import try_runtime
    except ImportError as error:
        return warning(runtime, f"not tried: no {error.name} here", "python -m pip install 'gpunion[agent]'")
    tried = try_runtime(runtime)
    if not tried.trouble:
        return ok(runtime, f"it works: {tried.described}")
    return (missing if needed else warning)(runtime, tried.trouble, tried.mend)


def check_other_runtimes(chosen: str) -> list[Finding]:
    """Those that are installed and not chosen: whoever wants to change has to know whether they would do."""
    programs = {"sandbox": "bwrap", "docker": "docker", "podman": "podman"}
    return [
        check_runtime(name, needed=False)
        for name, program in programs.items()
        if name != chosen and shutil.which(program)
    ]


def check_cgroup(systemd: bool, agent: int | None = None) -> Finding:
    """Where the agent may make cgroups it can end a guest as one. Without, its keeper finds and limits it.
    Where no agent runs, it is taken for one that would be started from here."""
    try:
        text = Path(f"/proc/{agent or 'self'}/cgroup").read_text(encoding="utf-8")
    except OSError:
        text = ""
    own = next((line.partition("0::")[2] for line in text.splitlines() if line.startswith("0::")), None)
    instead = (
        "guests are found and held to their memory by their keepers, a little later than the kernel would; "
        "nothing holds them to a share of the CPU"
    )
    for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        folder = os.path.normpath(f"{mount}/{own}")
        if own is not None and os.path.exists(os.path.join(folder, "cgroup.procs")):
            if os.access(folder, os.W_OK):
                whose = f"the agent is in {folder}" if agent else f"an agent started here is in {folder}"
                return ok("cgroup", f"{whose}, and its guests get cgroups of their own")
            as_service = (
                "run the agent as a service, which has cgroups of its own: gpunion agent install --user"
            )
            as_root = "nothing has to be done; an agent of root's makes cgroups of its own"
            return warning("cgroup", f"{folder} is not ours: {instead}", as_service if systemd else as_root)
    mend = "boot with cgroup version 2: systemd.unified_cgroup_hierarchy=1 on the kernel's command line"
    return warning("cgroup", f"no cgroup version 2 here: {instead}", mend)


def check_gpus(declared: int) -> Finding:
    """A driver that hangs is found here rather than by the first guest."""
    name = "gpus"
    if not os.path.exists("/dev/nvidiactl"):
        found = f"no NVIDIA driver; {counted(declared, 'GPU')} lent because the settings say so"
        return ok(name, found if declared else "no NVIDIA driver, and no GPU in the settings")
    if find_spec("pynvml") is None:
        mend = f"{sys.executable} -m pip install 'gpunion[gpu]'"
        return warning(name, "there is an NVIDIA driver, and nothing to ask it with", mend)
    try:
        done = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=PROBE_LIMIT_S
        )
    except FileNotFoundError:
        return warning(name, "no nvidia-smi beside the driver", "install the driver's utilities")
    except (OSError, subprocess.TimeoutExpired) as error:
        return missing(name, f"the NVIDIA driver does not answer: {error}", "reboot; then: nvidia-smi")
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-200:]
        return missing(name, f"the NVIDIA driver does not answer: {said}", "nvidia-smi; dmesg | grep -i nvrm")
    return ok(name, f"the driver knows {counted(len(done.stdout.splitlines()), 'GPU')}")


def systemd_runs() -> bool:
    from gpunion.agent.machine.service import Systemd

    return Systemd().runs()


def agent_process(folder: Path) -> int | None:
    from gpunion.agent.owner import client as owner_client

    try:
        return int(owner_client.status(folder)["status"]["pid"])
    except (owner_client.OwnerTrouble, KeyError, TypeError, ValueError):
        return None


def check_agent(folder: Path, systemd: bool) -> Finding:
    from gpunion.agent.machine.service import installed
    from gpunion.agent.owner import client as owner_client

    services = ", ".join(str(service.unit_file) for service in installed(folder))
    as_service = "gpunion agent install" if os.geteuid() == 0 else "gpunion agent install --user"
    try:
        owner_client.status(folder)
    except owner_client.AgentNotRunning:
        by_hand = f"{as_service}, or: gpunion agent" if systemd else "gpunion agent"
        whose = "" if os.geteuid() == 0 else " --user"
        mend = f"journalctl{whose} -u gpunion-agent says why" if services else by_hand
        if here := guests_without_agent(folder):
            found = f"it does not run, so no new guests come. {here.removesuffix('.')}"
            return warning("agent", found, f"{mend}; {END_OR_START}" if services else END_OR_START)
        return warning("agent", "it does not run: nothing is lent", mend)
    except owner_client.OwnerTrouble as trouble:
        what, _, mend = str(trouble).partition("Next: ")
        return missing("agent", what.strip(), mend or "gpunion kill ends its guests; then restart it")
    if services:
        return ok("agent", f"it runs, and starts with the machine ({services})")
    by_itself = as_service if systemd else f"{BY_INIT} gpunion agent --state-dir {folder}"
    return warning("agent", "it runs, but nothing of ours starts it after a boot", by_itself)


def check_logging_out(lingers: bool) -> Finding:
    """For an ordinary user where systemd runs the machine."""
    from gpunion.agent.machine.service import LET_LINGER

    if lingers:
        return ok("logging out", "the agent and its guests go on when you log out")
    found = "an agent of yours and its guests may end when you log out"
    return warning("logging out", found, LET_LINGER)


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


def check_disk(name: str, folder: Path, *, lends: bool = False) -> Finding:
    """`lends`: guests write there, and an agent takes none below its own limit."""
    place = _first_existing(folder) or Path("/")
    free = shutil.disk_usage(place).free
    found = f"{shown_size(free)} free for {folder}"
    mend = f"make room: du -xsh {place}/* | sort -h"
    if lends and free < DISK_SHORT_BYTES:
        return missing(name, f"{found}; below {shown_size(DISK_SHORT_BYTES)} no new guests come", mend)
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
