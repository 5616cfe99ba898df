"""Docker as it is on this machine: found, asked what it can do, and made into a runtime."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpunion.adapters.runtimes.containers.container_command import SYSTEM_PATH, Engine, EngineTrouble
from gpunion.adapters.runtimes.containers.gpus import find_way
from gpunion.adapters.runtimes.containers.guest_user import GuestUser, OtherUsers
from gpunion.adapters.runtimes.containers.runtime import ContainerRuntime, EngineFacts
from gpunion.adapters.runtimes.keeper.kept_runtime import LOG_LIMIT_BYTES
from gpunion.adapters.runtimes.sandbox.bubblewrap import GUEST_ID
from gpunion.ports.runtime import RuntimeFault

# What `docker info` calls the means for a limit, and what we call the limit.
MEANS = {"MemoryLimit": "memory", "CpuCfsQuota": "cpu", "PidsLimit": "process"}
WITHOUT_ROOT = "or, without root, one of your own: dockerd-rootless-setuptool.sh install"
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
    engine, info = _answering(program)
    facts = facts_of(info, os.geteuid(), os.getegid())
    limits = {} if processes_max is None else {"processes_max": processes_max}
    return ContainerRuntime(state_dir, engine, facts, image=image, log_limit_bytes=log_limit_bytes, **limits)


def _answering(program: str) -> tuple[Engine, dict[str, Any]]:
    """The machine's daemon, or this user's own without root: how to call it, and what it says of itself."""
    troubles = []
    for words in ([], *([f"--host=unix://{socket}"] for socket in own_sockets(os.environ, os.geteuid()))):
        engine = Engine("docker", [program, *words], GONE_WORDS)
        try:
            info = json.loads(engine.call("info", "--format", "{{json .}}"))
            if info.get("ServerVersion"):
                return engine, info
            raise EngineTrouble("; ".join(info.get("ServerErrors") or ["its daemon does not answer"]))
        except (EngineTrouble, ValueError) as trouble:
            troubles.append(str(trouble).rstrip(".?").removesuffix(". Is the docker daemon running"))
    raise RuntimeFault(
        f"docker does not answer: {troubles[0]}. Next: {mend_of(troubles[0], os.geteuid())}", temporary=True
    )


def own_sockets(environment: Mapping[str, str], uid: int) -> list[str]:
    """Where a daemon without root listens, for a user who has not said which one is meant."""
    if uid == 0 or environment.get("DOCKER_HOST") or environment.get("DOCKER_CONTEXT"):
        return []
    folders = dict.fromkeys([environment.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}", f"/run/user/{uid}"])
    return [path for folder in folders if os.path.exists(path := f"{folder}/docker.sock")]


def mend_of(said: str, uid: int) -> str:
    if uid == 0:
        return "systemctl start docker (docker info)"
    if "permission denied" in said.lower():
        return (
            "sudo usermod -aG docker $USER, and log in again (who is in that group is as good as root); "
            f"{WITHOUT_ROOT}"
        )
    return f"sudo systemctl start docker, and see that this user may use it (docker info); {WITHOUT_ROOT}"


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
            inside=f"{GUEST_ID}:{GUEST_ID}",
            host_id=host_id,
            others=OtherUsers.MAPPED,
            first_host_id=int(base[1]),
            described=f"user namespace, user {host_id}",
        )
    return GuestUser(own=True, others=OtherUsers.CLAIMED, described="a user of its own")
