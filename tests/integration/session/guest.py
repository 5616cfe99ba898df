"""A session's program as a guest runs it, in directories of a test and without a sandbox around it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.sessions.jupyter import Jupyter

LIMIT_S = 90.0  # generous: CI is busy
TOKEN = "c0ffee"
SRC = Path(__file__).resolve().parents[3] / "src"


class GuestOfASession:
    """`moved` is the next run on another machine: what a checkpoint carries, and nothing else."""

    def __init__(self, root: Path, *, resume: bool = False) -> None:
        self.root = root
        self.control, self.checkpoint = root / "control", root / "checkpoint"
        self.output, self.sockets = root / "output", root / "scratch" / "sockets"
        self.work, self.home = root / "scratch" / "work", root / "scratch" / "home"
        for folder in (self.control, self.checkpoint, self.output, self.sockets, self.work, self.home):
            folder.mkdir(parents=True, exist_ok=True)
        self._resume = resume
        self._process: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
            "PYTHONPATH": str(SRC),
            "GPUNION_SESSION_DIR": str(self.sockets),
            "GPUNION_CONTROL_DIR": str(self.control),
            "GPUNION_CHECKPOINT_DIR": str(self.checkpoint),
            "GPUNION_OUTPUT_DIR": str(self.output),
            "GPUNION_RESUME": "1" if self._resume else "0",
            "GPUNION_SESSION_TOKEN": TOKEN,
        }

    @contextmanager
    def running(self, kind: str = "notebook", *, ready: bool = True) -> Iterator[Jupyter]:
        with open(self.root / "log.txt", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gpunion.sdk.session", kind],
                cwd=self.work,
                env=self.environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            if kind == "notebook" and ready:
                self.wait("ready", lambda: self.told().get("ready"))
            yield Jupyter(TOKEN, socket=self.sockets / "lab.sock")
        finally:
            self.stop()

    def stop(self) -> int:
        process = self._process
        assert process is not None
        if process.poll() is None:
            process.terminate()
        try:
            return process.wait(LIMIT_S)
        finally:
            with_group_kill(process.pid)

    def ended(self) -> int:
        assert self._process is not None
        return self._process.wait(LIMIT_S)

    def told(self) -> dict[str, Any]:
        return _read(self.control / "session.json")

    def ask_to_save(self, name: str, *, final: bool = False, within_s: float | None = None) -> dict[str, Any]:
        deadline = None if within_s is None else time.time() + within_s
        request = self.control / ".request"
        request.write_text(json.dumps({"id": name, "final": final, "deadline": deadline}))
        request.rename(self.control / "request.json")
        self.wait(f"an answer to {name}", lambda: self.saved().get("id") == name)
        return self.saved()

    def saved(self) -> dict[str, Any]:
        return _read(self.control / "saved.json")

    def moved(self, root: Path) -> GuestOfASession:
        there = GuestOfASession(root, resume=True)
        for name in self.saved()["files"]:
            place = there.checkpoint / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.checkpoint / name, place)
        shutil.copytree(self.output, there.output, symlinks=True, dirs_exist_ok=True)
        return there

    def wait(self, what: str, look: Callable[[], object]) -> None:
        until_s = time.monotonic() + LIMIT_S
        while not look():
            if time.monotonic() > until_s or (self._process is not None and self._process.poll() is not None):
                log = (self.root / "log.txt").read_text(errors="replace")
                raise AssertionError(f"no {what}: {self.told()}\n{log[-3000:]}")
            time.sleep(0.05)


def with_group_kill(group: int) -> None:
    """Kernels too, should their server have gone without them."""
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        return


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}
