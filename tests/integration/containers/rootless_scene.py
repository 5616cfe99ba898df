"""What becomes of guests in an ordinary user's Podman, told as JSON: `python3 -m ... <state_dir>`.

Run as that user, by the system's Python: the standard library has to do.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from gpunion.adapters.runtimes.containers.freezing import ContainerFreezer
from gpunion.adapters.runtimes.podman.runtime import open_podman
from gpunion.adapters.runtimes.podman.whole import PodmanRuntime
from gpunion.owner_kill import kill_all, lift_kill
from gpunion.owner_kill.guest import container_members, members
from gpunion.ports.runtime import GuestSpec
from tests.real_machine import eventually, now_s

FOREVER_S = 100_000.0
HIDES, EATS = "job-1-e1", "job-2-e1"
PYTHON = "/usr/bin/python3"
# Its child leaves the session, and its grandchild's parent ends: it comes back to the container's first one.
HIDING = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
time.sleep(100000)
"""
EATING = "food = b'x' * (256 << 20)\nimport time\ntime.sleep(100000)"
EATING_LIMIT_BYTES = 64 << 20


def main(state_dir: Path) -> None:
    runtime = open_podman(state_dir)
    story: dict[str, object] = {"unenforced": runtime.unenforced, "described": runtime.describe()}
    hiding = _start(runtime, state_dir, HIDES, HIDING, 0)
    eventually(lambda: len(container_members(hiding)) == 3)  # the first of its namespace, and both of its own
    story["alive"] = [guest.alive for guest in asyncio.run(runtime.guests())]
    freezer = ContainerFreezer(state_dir)
    freezer.freeze(HIDES)
    story["frozen"] = [_state(pid) for pid, _ in container_members(hiding)]
    freezer.thaw(HIDES)
    story["killed"] = kill_all(state_dir).complete
    story["left"] = len(members(hiding))
    lift_kill(state_dir)
    _start(runtime, state_dir, EATS, EATING, EATING_LIMIT_BYTES)
    asyncio.run(runtime.wait_exit(EATS))
    story["ends"] = {guest.run_id: str(guest.exit_reason) for guest in asyncio.run(runtime.guests())}
    for run_id in (HIDES, EATS):
        asyncio.run(runtime.remove(run_id))
    story["containers"] = runtime.containers()
    print(json.dumps(story))


def _start(runtime: PodmanRuntime, state_dir: Path, run_id: str, program: str, memory_bytes: int) -> str:
    spec = GuestSpec(
        run_id=run_id,
        job_id=run_id.removesuffix("-e1"),
        epoch=1,
        command=(PYTHON, "-c", program),
        environment={},
        gpu_indices=(),
        memory_bytes=memory_bytes,
        cpus=0.0,
        resume=False,
        work_source=None,
    )

    async def start() -> str:
        paths = await runtime.prepare(spec)
        await runtime.limit(run_id, now_s() + FOREVER_S, None)
        await runtime.start(spec)
        return str(paths.root)

    return asyncio.run(start())


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
