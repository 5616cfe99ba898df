"""Docker as it is on this machine: found, asked what it can do, and made into a runtime."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from gpunion.adapters.containers.engine import SYSTEM_PATH, Engine, EngineTrouble
from gpunion.adapters.containers.gpus import find_way
from gpunion.adapters.containers.runtime import ContainerRuntime, EngineFacts, GuestUser
from gpunion.adapters.sandbox.bubblewrap import GUEST_ID
from gpunion.adapters.sandbox.kept import LOG_LIMIT_BYTES
from gpunion.ports.runtime import RuntimeFault

# What `docker info` calls the means for a limit, and what we call the limit.
MEANS = {"MemoryLimit": "memory", "CpuCfsQuota": "cpu", "PidsLimit": "process"}
GONE_WORDS = ("cannot connect to the docker daemon", "error during connect", "eof", "connection re")


def open_docker(
    state_dir: str | os.PathLike[str],
    *,
    image: str | None = None,
    log_limit_bytes: int = LOG_LIMIT_BYTES,
    processes_max: int | None = None,
) -> ContainerRuntime:
    """RuntimeFault where there is no Docker, or its daemon does not answer this user."""
    program = shutil.which("docker", path=SYSTEM_PATH)
    if program is None:
        raise RuntimeFault("docker is not installed. Next: apt-get install docker.io", temporary=False)
    engine = Engine("docker", [program], GONE_WORDS)
    try:
        info = json.loads(engine.call("info", "--format", "{{json .}}"))
        if not info.get("ServerVersion"):
            raise EngineTrouble("; ".join(info.get("ServerErrors") or ["its daemon does not answer"]))
    except (EngineTrouble, ValueError) as trouble:
        mend = "systemctl start docker, and see that this user may use it (docker info)"
        if "permission denied" in str(trouble).lower():
            mend = "sudo usermod -aG docker $USER, and log in again (who is in that group is as good as root)"
        said = str(trouble).rstrip(".?")
        raise RuntimeFault(f"docker does not answer: {said}. Next: {mend}", temporary=True) from trouble
    facts = facts_of(info, os.geteuid(), os.getegid())
    limits = {} if processes_max is None else {"processes_max": processes_max}
    return ContainerRuntime(state_dir, engine, facts, image=image, log_limit_bytes=log_limit_bytes, **limits)


def facts_of(info: dict[str, Any], uid: int, gid: int) -> EngineFacts:
    """`info` as `docker info` tells it."""
    return EngineFacts(
        version=str(info["ServerVersion"]),
        user=_guest_user(info, uid, gid),
        unenforced=tuple(limit for means, limit in MEANS.items() if not info.get(means, True)),
        gpus=find_way(cdi=bool(info.get("CDISpecDirs")), requests="nvidia" in (info.get("Runtimes") or {})),
    )


def _guest_user(info: dict[str, Any], uid: int, gid: int) -> GuestUser:
    options = " ".join(info.get("SecurityOptions") or [])
    if "name=rootless" in options:
        # Root inside is the agent's user outside, and has no capability inside either.
        return GuestUser(inside="0:0", described="user namespace of a rootless engine")
    if uid != 0:
        return GuestUser(inside=f"{uid}:{gid}", described=f"user {uid}")
    base = re.fullmatch(r"(\d+)\.\d+", Path(str(info.get("DockerRootDir", ""))).name)
    if "name=userns" in options and base is not None:
        host_id = int(base[1]) + GUEST_ID
        return GuestUser(
            inside=f"{GUEST_ID}:{GUEST_ID}", host_id=host_id, described=f"user namespace, user {host_id}"
        )
    return GuestUser(own=True, described="a user of its own")
