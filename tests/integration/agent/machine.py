"""One lab's machine for a test: a state directory, an agent process of our own, and the owner's hands."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpunion.agent.link.joining import JoinRequest
from gpunion.agent.owner import client as owner_client
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import GIB, Gpu
from gpunion.owner_kill import kill_all
from gpunion.owner_kill.guest import guest_dirs, members
from tests.integration.agent.campus import TestCampus, eventually

TRAIN = """
import os, time
from pathlib import Path
from gpunion.sdk.job import training

total = [0]
def save(directory): (directory / "total").write_text(str(total[0]))
def load(directory): total[0] = int((directory / "total").read_text())

run = training.Training(total_steps=int(os.environ["STEPS"]), save=save, load=load)
print("resuming" if os.environ["GPUNION_RESUME"] == "1" else "beginning", flush=True)
for step in run.steps():
    total[0] += step
    time.sleep(0.01)
Path(os.environ["GPUNION_OUTPUT_DIR"], "total").write_text(str(total[0]))
print("finished", flush=True)
"""
# Neither saves nor goes when asked.
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
while True:
    time.sleep(1)
"""
# Leaves in every file that its agent reads what no honest program says, again and again.
ODD = """
import itertools, os, time
from pathlib import Path

huge = "9" * 400
words = [
    f'{{"id": "c1", "step": {huge}, "progress": {huge}, "stall_s": {huge}, "idle_s": {huge}, "done": true}}',
    f'{{"id": {huge}, "step": -{huge}, "progress": -1e999, "stall_s": NaN, "files": ["\\\\ud800", "../x"]}}',
    '{"id": "c1", "counted": ["steps"], "step": "7", "progress": [], "trouble": {}, "files": {"a": 1}}',
    "[" * 100000,
    "[]",
]
here = Path(os.environ["GPUNION_CONTROL_DIR"])
for said in itertools.cycle(words):
    for name in ("progress", "saved", "not-saved", "stepped-aside", "session", "restored", "piece"):
        (here / "odd").write_text(said)
        (here / "odd").replace(here / f"{name}.json")
    print("said", flush=True)
    time.sleep(0.5)
"""
FOREVER = str(10**9)


class Machine:
    def __init__(
        self, campus: TestCampus, root: Path, name: str, *, vault: Path | None = None, log: Path | None = None
    ) -> None:
        self.campus = campus
        self.name = name
        self.state_dir = root / name
        self.vault = vault or root / "vault"
        self.log = log or root / f"{name}.log"
        self.agent: subprocess.Popen[bytes] | None = None

    async def join(self, **terms: Any) -> None:
        from gpunion.adapters.http.requests import HttpRegistrar
        from gpunion.agent.link.joining import join

        request = JoinRequest(
            url=self.campus.url,
            join_token="once",
            name=self.name,
            lab="alpha",
            state_dir=self.state_dir,
            gpus=(Gpu(index=0, model="declared", memory_bytes=8 * GIB),),
            vault=str(self.vault),
            cpus=4.0,
            memory_bytes=2 * GIB,
            terms=Terms(**terms),
        )
        await join(request, HttpRegistrar(self.campus.url))

    def boot(self, **environment: str) -> None:
        with open(self.log, "ab") as log:
            self.agent = subprocess.Popen(
                [sys.executable, "-m", "gpunion.agent", "--state-dir", str(self.state_dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
            )

    def signal_agent(self, signum: int) -> None:
        assert self.agent is not None
        self.agent.send_signal(signum)

    def crash(self) -> None:
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def living_guests(self) -> list[str]:
        """Those with a process of their own; a keeper that is just leaving is none of theirs."""
        return [os.path.basename(path) for path in guest_dirs(str(self.state_dir)) if members(path)]

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = owner_client.status(self.state_dir)["status"]
        return answer

    async def owner(self, verb: str, **details: Any) -> str:
        answer = await asyncio.to_thread(owner_client.ask, self.state_dir, verb, **details)
        return str(answer["message"])

    async def listening(self) -> None:
        await eventually(self._answers, f"the agent of {self.name} answers its owner")

    def _answers(self) -> bool:
        if self.agent is not None and self.agent.poll() is not None:
            raise AssertionError(f"the agent ended with {self.agent.returncode}:\n{self.log.read_text()}")
        try:
            return bool(self.status())
        except owner_client.AgentNotRunning:
            return False

    def clear_up(self) -> None:
        """Whatever a test left alive of its own."""
        if self.agent is not None and self.agent.poll() is None:
            self.agent.send_signal(signal.SIGCONT)
            self.agent.kill()
            self.agent.wait()
        if self.state_dir.exists():
            kill_all(self.state_dir)
