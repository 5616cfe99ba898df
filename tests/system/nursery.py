"""Real processes that start fast: what they import is imported once, in a server that forks them.

A coordinator spends over a second of processor time on imports. The tests start hundreds; that second is
the same every time and tests nothing (the demo's tests start them the ordinary way).
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gpunion.cli.demo.campus import Process

PRELOADED = ["gpunion.coordinator.__main__", "gpunion.agent.__main__", "gpunion.adapters.sql.migrate"]


class Forked:
    """A forked process with the face of subprocess.Popen."""

    def __init__(self, module: list[str], environment: Mapping[str, str], log_file: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        # A daemon in the sense of multiprocessing: a test run that ends takes it along.
        self._process = context.Process(
            target=_live, args=(module, dict(environment), str(log_file)), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(["forked"], timeout)
        return self._process.exitcode

    def send_signal(self, signum: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, signum)


def fork_module(module: list[str], environment: Mapping[str, str], log_file: Path) -> Process:
    """Instead of `gpunion.cli.demo.campus.spawn_module`."""
    return Forked(module, environment, log_file)


def _live(module: list[str], environment: dict[str, str], log_file: str) -> None:
    os.setsid()
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    main = importlib.import_module(f"{module[0]}.__main__").main
    sys.exit(main(module[1:]))
