"""Podman as it is on this machine: found, asked what it can do, and made into a runtime."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from typing import Any

from gpunion.adapters.runtimes.containers.container_command import SYSTEM_PATH, Engine, EngineTrouble
from gpunion.adapters.runtimes.containers.gpus import find_way
from gpunion.adapters.runtimes.containers.guest_user import GuestUser
from gpunion.adapters.runtimes.containers.runtime import EngineFacts
from gpunion.adapters.runtimes.keeper.kept_runtime import LOG_LIMIT_BYTES
from gpunion.adapters.runtimes.podman.namespace import LOST_WORDS, ask
from gpunion.adapters.runtimes.podman.seccomp import profile_words
from gpunion.adapters.runtimes.podman.users import Tried, guest_user, maps_users, try_without_root
from gpunion.adapters.runtimes.podman.whole import PodmanRuntime
from gpunion.ports.checkpointer import DumpHooks
from gpunion.ports.runtime import RuntimeFault

CDI_SINCE = (4, 1)
# The kernel's name for the means of a limit, and ours for the limit.
CONTROLLERS = {"memory": "memory", "cpu": "cpu", "pids": "process"}
# What Podman says where a user without root lacks something, and who gives it.
MENDS = (
    ((LOST_WORDS,), "podman system migrate (it ends containers of yours that still run)"),
    (("newuidmap", "newgidmap"), "have root install what gives a user more ids: apt-get install uidmap"),
    (
        ("no space left", "disk quota exceeded"),
        "make room where Podman keeps its files (podman info --format '{{.Store.GraphRoot}}')",
    ),
    (("read-only file system", "permission denied"), "see that your home is yours and writable; podman info"),
    (
        ("operation not permitted", "cannot clone", "user namespace"),
        "have root allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 (Debian), or "
        "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu 24.04)",
    ),
)


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
        told = json.loads(ask(engine, "version", "--format", "json"))
        ask(engine, "ps", "--quiet")  # it has to reach its storage as well
    except (EngineTrouble, ValueError) as trouble:
        raise _fault("podman does not work here", trouble) from trouble
    tried = _tried(engine)
    unenforced = _unenforced(engine) if tried.own_cgroup else tuple(CONTROLLERS.values())
    facts = replace(facts_of(told, tried.user), unenforced=unenforced, more_words=profile_words(state_dir))
    options: dict[str, Any] = {"image": image, "log_limit_bytes": log_limit_bytes, "hooks": hooks}
    if processes_max is not None:
        options["processes_max"] = processes_max
    return PodmanRuntime(state_dir, engine, facts, **options)


def _tried(engine: Engine) -> Tried:
    program, uid, gid = tuple(engine.program), os.geteuid(), os.getegid()
    if uid == 0:
        return Tried(user=guest_user(uid, gid, maps_users=maps_users(program)), own_cgroup=True)
    try:
        return try_without_root(program, uid, gid)
    except EngineTrouble as trouble:
        raise _fault("podman runs no container for this user", trouble) from trouble


def _fault(what: str, trouble: Exception) -> RuntimeFault:
    said = str(trouble).strip().rstrip(".")
    return RuntimeFault(f"{what}: {said}. Next: {mend_of(said)}", temporary=True)


def mend_of(said: str) -> str:
    """The step that mends what Podman complains of."""
    found = (mend for words, mend in MENDS if any(word in said.lower() for word in words))
    return next(found, "podman info; podman unshare true, says what it lacks without root")


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
    """Root has every controller there is; another user those that were given to it."""
    if os.geteuid() == 0:
        return ()
    try:
        given = json.loads(engine.call("info", "--format", "{{json .Host.CgroupControllers}}")) or []
    except (EngineTrouble, ValueError):
        given = []
    return tuple(limit for controller, limit in CONTROLLERS.items() if controller not in given)
