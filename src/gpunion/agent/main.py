"""The agent's process: take the lock, live until told to stop, and say in words why it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from gpunion import log_lines
from gpunion.agent.compose.agent import Parts, compose
from gpunion.agent.settings import Settings, SettingsTrouble
from gpunion.agent.state_dir import LOCK_FILE
from gpunion.agent.supervisor import Agent, CannotStart
from gpunion.ports.agent_disk import DiskFault
from gpunion.ports.runtime import RuntimeFault

EXIT_FINE, EXIT_REFUSED = 0, 2


def run_agent(settings: Settings, log_format: str | None = None) -> int:
    """Runs until SIGTERM or until the owner leaves; returns the exit status. Words go to standard error."""
    log_lines.configure(log_format)
    try:
        with one_agent_only(settings.state_dir):
            while asyncio.run(_run(settings, compose(settings))):
                pass
    except (CannotStart, RuntimeFault, DiskFault, SettingsTrouble) as trouble:
        print(f"The agent does not start: {trouble}", file=sys.stderr)
        return EXIT_REFUSED
    return EXIT_FINE


@contextlib.contextmanager
def one_agent_only(state_dir: Path) -> Iterator[None]:
    """The lock ends with the process, however it ends."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(state_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotStart(f"{state_dir} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):  # on a full disk nobody can be told who has it
            os.ftruncate(lock, 0)
            os.write(lock, f"{os.getpid()}\n".encode())
        yield
    except BlockingIOError as error:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        raise CannotStart(
            f"another agent (process {holder}) already runs on {state_dir}.\n"
            f"Next: gpunion status --state-dir {state_dir}, to see what it does; or choose another one."
        ) from error
    finally:
        os.close(lock)


async def _run(settings: Settings, parts: Parts) -> bool:
    """Whether it has to begin anew, with the memory that lies there now."""
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    agent = Agent(settings, parts)
    try:
        await agent.begin()
        anew = await agent.live(stop)
    finally:
        await agent.end()
    return anew and not stop.is_set()  # who was told to stop meanwhile is not told again
