"""The command line as its users have it: a process with an environment of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT_S = 60.0
# A test's environment must not leak into what is tested.
CLEAN = {
    name: value for name, value in os.environ.items() if not name.startswith(("GPUNION_", "XDG_", "COV_"))
}


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(slots=True)
class Program:
    """`gpunion` in a home of its own. Processes it leaves running end with `close`."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.home / "coordinator"

    @property
    def state(self) -> Path:
        return self.home / "state"

    def __call__(self, *words: str, here: Path | None = None, **environment: str) -> Done:
        done = subprocess.run(
            self._command(words),
            env=self.surroundings(environment),
            cwd=here or self._empty(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with open(self.home / f"{words[0]}.log", "ab") as log:
            process = subprocess.Popen(
                self._command(words), env=self.surroundings({}), cwd=self._empty(), stdout=log, stderr=log
            )
        self.running.append(process)
        return process

    def start_coordinator(self) -> subprocess.Popen[bytes]:
        process = self.start("coordinator", "--data", str(self.data), "--listen", "127.0.0.1:0")
        self.wait_for(lambda: (self.data / "address").exists(), "the coordinator listens")
        return process

    def start_agent(self) -> subprocess.Popen[bytes]:
        process = self.start("agent")
        self.wait_for(lambda: (self.state / "owner.sock").exists(), "the agent answers its owner")
        return process

    def url(self) -> str:
        return (self.data / "address").read_text().strip()

    def wait_for(self, true: Any, what: str) -> None:
        until_s = time.monotonic() + LIMIT_S
        while not true():
            assert time.monotonic() < until_s, f"not in {LIMIT_S:.0f} s: {what}\n{self._logs()}"
            time.sleep(0.05)

    def close(self) -> None:
        if self.state.exists():
            self("kill", "--state-dir", str(self.state))
        for process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "gpunion", *words]

    def surroundings(self, more: dict[str, str]) -> dict[str, str]:
        own = {
            "HOME": str(self.home),
            "GPUNION_STATE_DIR": str(self.state),
            "GPUNION_COORDINATOR_DATA_DIR": str(self.data),
        }
        return {**CLEAN, **own, **self.environment, **more}

    def _empty(self) -> Path:
        folder = self.home / "empty"
        folder.mkdir(exist_ok=True)
        return folder

    def _logs(self) -> str:
        return "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in self.home.glob("*.log"))
