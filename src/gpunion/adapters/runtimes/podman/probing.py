"""Whether whole guests can be dumped and brought back on this machine: tried once with a small one.

The answer depends on the kernel, CRIU, Podman, the processor and the GPU driver, and holds until one of them
changes. It is the machine's and not one agent's, and kept where a reboot clears it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

from gpunion.adapters.runtimes.containers.container_command import SYSTEM_PATH, client_environment
from gpunion.domain.system_tier import OTHERWISE, SystemAbility
from gpunion.files import read_json, write_json
from gpunion.ports.checkpointer import DumpRefused, RestoreRefused, WholeRuntime
from gpunion.ports.runtime import ExitReason, GuestSpec, RuntimeFault

DRIVER_VERSION = Path("/sys/module/nvidia/version")
MEMORY_DIR = Path("/run")
MEMORY_FILE = "gpunion-system-tier.json"
PROBE_DIR = "probe"
LEASE_S = 30.0  # whatever becomes of us, the small guest is gone then
DUMP_LIMIT_S = 30.0
COUNT_LIMIT_S = 10.0
VERSION_LIMIT_S = 10.0  # a program that does not even say that is not waited for
LOOK_S = 0.02
PROBE_MEMORY_BYTES = 64 * 1024**2
COUNTING = "i=0; while :; do i=$((i+1)); echo $i >> /gpunion/output/count; sleep 0.02; done"
VERSION = re.compile(r"\d+(?:\.\d+)+")


def no_means() -> str:
    """Why there is nothing to try."""
    if os.geteuid() != 0:
        return f"CRIU takes an agent of root's, and this one is another user's; {OTHERWISE}"
    if shutil.which("runc", path=SYSTEM_PATH) is None:
        return "runc is not installed. Next: apt-get install runc"
    if shutil.which("criu", path=SYSTEM_PATH) is None:
        return "CRIU is not installed. Next: tools/install-criu, or your distribution's CRIU 4 or newer"
    if shutil.which("iptables-restore", path=SYSTEM_PATH) is None:
        return "CRIU needs iptables to hold a guest's network still. Next: apt-get install iptables"
    return ""


def kind_of_machine(engine_version: str, *, host_programs: bool) -> str:
    """What a dump depends on. `host_programs`: guests run this machine's own, so those count as well."""
    kernel = ".".join(platform.release().split(".")[:2])
    parts = [platform.machine(), f"cpu-{_cpu_features()}", f"linux-{kernel}", f"podman-{engine_version}"]
    parts += [f"runc-{_version('runc')}", f"criu-{_version('criu')}", f"driver-{gpu_driver(DRIVER_VERSION)}"]
    if host_programs:
        parts.append(f"programs-{_programs()}")
    return "/".join(parts)


def remembered(place: Path, kind: str) -> SystemAbility | None:
    """That it works. What did not is tried again: its owner may have mended it, or the machine was busy."""
    record = read_json(str(place / MEMORY_FILE))
    if record is None or record.get("kind") != kind or record.get("able") is not True:
        return None
    return SystemAbility(able=True, why_not="", kind=kind)


def remember(place: Path, ability: SystemAbility) -> None:
    record: dict[str, object] = {
        "kind": ability.kind,
        "able": ability.able,
        "why_not": ability.why_not,
        "tried_unix_s": time.time(),
    }
    write_json(str(place / MEMORY_FILE), record, durable=False)


async def try_it(runtime: WholeRuntime, home: Path, kind: str) -> SystemAbility:
    """`runtime` has a state directory of its own, `home`, which is removed afterwards."""
    try:
        why_not = await _dump_and_restore(runtime, home)
    except (RuntimeFault, DumpRefused, RestoreRefused, OSError) as trouble:
        why_not = f"a small guest could not be dumped and brought back: {trouble}"
    finally:
        await _tidy_up(runtime)
        await asyncio.to_thread(shutil.rmtree, home, True)
    return SystemAbility(able=not why_not, why_not=why_not, kind=kind)


async def _dump_and_restore(runtime: WholeRuntime, home: Path) -> str:
    first, second = _guest("probe-before"), _guest("probe-after")
    before, after = await runtime.prepare(first), await runtime.prepare(second)
    await _lease(runtime, first.run_id)
    await runtime.start(first)
    await _counted(before.output_dir, beyond=0)
    await runtime.dump(first.run_id, home / "dump", limit_s=DUMP_LIMIT_S)
    reached = _count(before.output_dir)
    await asyncio.to_thread(shutil.copytree, before.output_dir, after.output_dir, dirs_exist_ok=True)
    await runtime.kill(first.run_id, ExitReason.STOPPED)
    await _lease(runtime, second.run_id)
    await runtime.restore(second, home / "dump")
    if not await _counted(after.output_dir, beyond=len(reached)):
        return "a small guest was brought back and did not go on"
    went_on = _count(after.output_dir)
    expected = [str(number) for number in range(1, len(went_on) + 1)]
    return "" if went_on == expected else "a small guest was brought back and did not go on where it was"


def _guest(run_id: str) -> GuestSpec:
    return GuestSpec(
        run_id=run_id,
        job_id="probe",
        epoch=1,
        command=("/bin/sh", "-c", COUNTING),
        environment={},
        gpu_indices=(),
        memory_bytes=PROBE_MEMORY_BYTES,
        cpus=1.0,
        resume=False,
        work_source=None,
    )


async def _lease(runtime: WholeRuntime, run_id: str) -> None:
    await runtime.limit(run_id, time.clock_gettime(time.CLOCK_BOOTTIME) + LEASE_S, None)


async def _counted(output_dir: Path, *, beyond: int) -> bool:
    until_s = time.monotonic() + COUNT_LIMIT_S
    while len(_count(output_dir)) <= beyond:
        if time.monotonic() > until_s:
            return False
        await asyncio.sleep(LOOK_S)
    return True


def _count(output_dir: Path) -> list[str]:
    try:
        return (output_dir / "count").read_text(encoding="ascii").split()
    except OSError:
        return []


async def _tidy_up(runtime: WholeRuntime) -> None:
    for guest in await runtime.guests():
        await runtime.kill(guest.run_id, ExitReason.STOPPED)
        await runtime.remove(guest.run_id)


def _version(program: str) -> str:
    found = shutil.which(program, path=SYSTEM_PATH)
    if found is None:
        return "none"
    try:
        answer = subprocess.run(
            [found, "--version"],
            capture_output=True,
            text=True,
            env=client_environment(),
            timeout=VERSION_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    version = VERSION.search(answer.stdout)
    return version[0] if version else "unknown"


def gpu_driver(said: Path) -> str:
    """What a guest has on a GPU is brought back by the driver that is there."""
    try:
        return said.read_text(encoding="ascii", errors="replace").strip()[:32].replace("/", "-") or "unknown"
    except OSError:
        return "none"


def _cpu_features() -> str:
    """A program may have looked at them once and never again, so they have to be the same."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    return _digest(" ".join(sorted(flags.partition(":")[2].split())))


def _programs() -> str:
    """CRIU opens the very files a program had mapped, and refuses other sizes."""
    names = []
    for folder in ("/usr/lib", "/usr/lib64", f"/usr/lib/{platform.machine()}-linux-gnu"):
        for path in sorted(Path(folder).glob("lib[cm].so.*")):
            names.append(f"{path}={path.stat().st_size}")
    return _digest(" ".join(names))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
