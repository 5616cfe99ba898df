"""The user namespace that all of an ordinary user's Podman lives in.

A process of Podman's own keeps it open. Where that one was killed with all else of its user (at the end of a
session, or by a power cut that the folder with its notes survived) Podman refuses every call until it is told
to forget that namespace. An agent that nobody looks at would never come back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from gpunion.adapters.runtimes.containers.container_command import Engine, EngineTrouble

LOST_WORDS = "resetting the pause process"
# Podman's keeper of a running container: forgetting the namespace would end what it keeps.
CONTAINER_KEEPER = "conmon"


def container_runs(uid: int) -> bool:
    return any(_is_keeper(Path("/proc", name), uid) for name in os.listdir("/proc") if name.isdigit())


def ask(engine: Engine, *words: str, runs: Callable[[int], bool] = container_runs) -> str:
    """As `engine.call`, with a namespace that was lost forgotten first, while no container is in it."""
    try:
        return engine.call(*words)
    except EngineTrouble as trouble:
        if LOST_WORDS not in str(trouble) or runs(os.geteuid()):
            raise
    with contextlib.suppress(EngineTrouble):  # it says so of each container that it finds dead
        engine.call("system", "migrate")
    return engine.call(*words)


def _is_keeper(process: Path, uid: int) -> bool:
    try:
        alive = bool((process / "cmdline").read_bytes())  # of a zombie it is empty
        named = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
        return alive and named == CONTAINER_KEEPER and process.stat().st_uid == uid
    except OSError:
        return False  # gone meanwhile
