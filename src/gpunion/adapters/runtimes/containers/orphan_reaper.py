"""Ends and removes a container whose keeper is gone, for whatever reason it is gone.

A container's processes belong to the engine and would outlive their keeper, with nobody to end them at
their lease's or the owner's time. So the keeper forks one more process, which does nothing but wait for it.
"""

from __future__ import annotations

import os
import select
import sys
import time

from gpunion.adapters.runtimes.containers.container_command import Engine, EngineTrouble
from gpunion.owner_kill.guest import members, strike

STRIKE_LIMIT_S = 10.0
STRIKE_PAUSE_S = 0.01
REMOVE_TRIES = 20
REMOVE_PAUSE_S = 1.0  # an engine that restarts is back within seconds


def watch_over(guest_dir: str, engine: Engine, container: str) -> None:
    """Called by the keeper once, before there is a container."""
    keeper = os.pidfd_open(os.getpid())
    helper = os.fork()
    if helper == 0:
        # Forked twice, so that it is no descendant of the keeper and is not ended with the guest.
        if os.fork() == 0:
            _guard(keeper, guest_dir, engine, container)
        os._exit(0)
    os.waitpid(helper, 0)
    os.close(keeper)


def _guard(keeper: int, guest_dir: str, engine: Engine, container: str) -> None:
    try:
        os.setsid()
        os.dup2(keeper, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # the keeper's lock and its answer are not ours
        select.select([3], [], [])
        until_s = time.monotonic() + STRIKE_LIMIT_S
        while members(guest_dir) and time.monotonic() < until_s:
            strike(guest_dir, keeper_too=False)
            time.sleep(STRIKE_PAUSE_S)
        _remove(engine, container)
    except BaseException as error:
        print(f"guardian: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(0)


def _remove(engine: Engine, container: str) -> None:
    for _ in range(REMOVE_TRIES):
        try:
            engine.remove(container)
            return
        except EngineTrouble as trouble:
            print(f"guardian: {trouble}", file=sys.stderr, flush=True)
            time.sleep(REMOVE_PAUSE_S)
