"""Podman as it is on this machine: found, asked what it can do, and made into a runtime."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from typing import Any

from gpunion.adapters.containers.engine import SYSTEM_PATH, Engine, EngineTrouble
from gpunion.adapters.containers.gpus import find_way
from gpunion.adapters.containers.runtime import EngineFacts, GuestUser
from gpunion.adapters.podman.seccomp import profile_words
from gpunion.adapters.podman.users import guest_user, maps_users
from gpunion.adapters.podman.whole import PodmanRuntime
from gpunion.adapters.sandbox.kept import LOG_LIMIT_BYTES
from gpunion.ports.checkpointer import DumpHooks
from gpunion.ports.runtime import RuntimeFault

CDI_SINCE = (4, 1)
# The kernel's name for the means of a limit, and ours for the limit.
CONTROLLERS = {"memory": "memory", "cpu": "cpu", "pids": "process"}


def open_podman(
    state_dir: str | os.PathLike[str],
    *,
    image: str | None = None,
    log_limit_bytes: int = LOG_LIMIT_BYTES,
    processes_max: int | None = None,
    hooks: DumpHooks | None = None,
) -> PodmanRuntime:
    """RuntimeFault where there is no Podman that works for this user. `hooks`: for guests on real GPUs."""
    program = shutil.which("podman", path=SYSTEM_PATH)
    if program is None:
        raise RuntimeFault("podman is not installed. Next: apt-get install podman runc", temporary=False)
    # runc where it is there: Debian's crun cannot checkpoint.
    runc = shutil.which("runc", path=SYSTEM_PATH)
    engine = Engine("podman", [program, *(["--runtime", runc] if runc else [])])
    try:
        told = json.loads(engine.call("version", "--format", "json"))
        engine.call("ps", "--quiet")  # it has to reach its storage as well
    except (EngineTrouble, ValueError) as trouble:
        raise RuntimeFault(
            f"podman does not work here: {trouble}. Next: podman info", temporary=True
        ) from trouble
    uid = os.geteuid()
    facts = replace(
        facts_of(
            told, guest_user(uid, os.getegid(), maps_users=uid == 0 and maps_users(tuple(engine.program)))
        ),
        unenforced=_unenforced(engine),
        more_words=profile_words(state_dir),
    )
    options: dict[str, Any] = {"image": image, "log_limit_bytes": log_limit_bytes, "hooks": hooks}
    if processes_max is not None:
        options["processes_max"] = processes_max
    return PodmanRuntime(state_dir, engine, facts, **options)


def facts_of(told: dict[str, Any], user: GuestUser) -> EngineFacts:
    """`told` is what `podman version` says."""
    version = str(told["Client"]["Version"])
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return EngineFacts(
        version=version,
        user=user,
        gpus=find_way(cdi=numbers >= CDI_SINCE, requests=False),
    )


def _unenforced(engine: Engine) -> tuple[str, ...]:
    """Root has every controller there is; another user those that were given to it, on cgroup v2 only."""
    if os.geteuid() == 0:
        return ()
    try:
        given = json.loads(engine.call("info", "--format", "{{json .Host.CgroupControllers}}")) or []
    except (EngineTrouble, ValueError):
        given = []
    return tuple(limit for controller, limit in CONTROLLERS.items() if controller not in given)
