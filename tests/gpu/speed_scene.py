"""The play of `run_speed_on_gpu`: by turns a program runs as a job in each runtime, and bare."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpunion.adapters.nvml.child import STAND_IN_VARIABLE
from gpunion.agent.compose.coordinator_requests import join
from gpunion.agent.link.joining import JoinRequest
from gpunion.agent.settings import SETTINGS_FILE
from gpunion.cli.demo.campus import LocalCampus
from gpunion.domain.resources import GIB
from gpunion.sdk.client import Client
from tests.gpu.programs import REHEARSED_SPEED, SPEED
from tests.gpu.rehearsal import FAKE
from tests.gpu.scene import SceneTrouble
from tests.unit.nvml.cards import STATE_VARIABLE, FakeDriver, a_card

LIMIT_S = 120.0
POLL_S = 0.1
MARK = "RATES "


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What differs between a real GPU and a rehearsal."""

    program: str
    nvidia_smi: Mapping[str, str]
    agent_environment: Mapping[str, str] = field(default_factory=dict)
    cpus: float = 4.0
    memory_bytes: int = 16 * GIB


@contextlib.contextmanager
def seen_machine() -> Iterator[Machine]:
    yield Machine(program=SPEED, nvidia_smi=nvidia_smi())


@contextlib.contextmanager
def rehearsed_machine(folder: Path) -> Iterator[Machine]:
    FakeDriver(folder / "nvml.json").says(gpus=[a_card(0)], driver="550.54.15", cuda=12040)
    yield Machine(
        program=REHEARSED_SPEED,
        nvidia_smi={"compute_capability": "9.0", "driver": "550.54.15", "cuda": "12.4"},
        agent_environment={
            STATE_VARIABLE: str(folder / "nvml.json"),
            STAND_IN_VARIABLE: "fake_nvml",
            "PYTHONPATH": os.pathsep.join([str(FAKE), os.environ.get("PYTHONPATH", "")]),
        },
        cpus=1.0,
        memory_bytes=GIB // 2,
    )


def nvidia_smi() -> dict[str, str]:
    words = ["nvidia-smi", "--query-gpu=compute_cap,driver_version", "--format=csv,noheader"]
    capability, driver = _said(words).splitlines()[0].split(", ")
    # The highest CUDA version is told in its table alone.
    highest = re.search(r"CUDA[^:|]*Version: *([0-9.]+)", _said(["nvidia-smi"]))
    return {"compute_capability": capability, "driver": driver, "cuda": highest[1] if highest else ""}


def _said(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


@dataclass
class SpeedScene:
    root: Path
    machine: Machine
    runtimes: list[str]
    rounds: int

    def play(self) -> dict[str, Any]:
        # A campus each, so that a job comes to the runtime that it is meant for.
        campuses = {name: LocalCampus(root=self.root / name) for name in self.runtimes}
        found: dict[str, Any] = {"runtimes": {}, "trouble": {}}
        try:
            for name, campus in campuses.items():
                campus.start_coordinator()
                self._join(campus, name)
            rounds = [self._round(campuses, found) for _ in range(self.rounds)]
            return {**found, "nvidia_smi": dict(self.machine.nvidia_smi), "rounds": rounds}
        finally:
            for campus in campuses.values():
                campus.close()

    def _round(self, campuses: Mapping[str, LocalCampus], found: dict[str, Any]) -> dict[str, Any]:
        row = {"bare": self._bare()}
        for name, campus in campuses.items():
            if name in found["trouble"]:
                continue
            try:
                row[name] = self._as_a_job(campus, name, found)
            except SceneTrouble as trouble:
                # The others go on: whoever lent the machine gets what can be had in one visit.
                found["trouble"][name] = str(trouble)
        return row

    def _join(self, campus: LocalCampus, name: str) -> None:
        token = campus.client().make_join_token()["join_token"]
        state_dir = campus.state_dir(name)
        join(
            JoinRequest(
                url=campus.url, join_token=token, name=name, lab="Lab", state_dir=state_dir, runtime=name
            )
        )
        with (state_dir / SETTINGS_FILE).open("a", encoding="utf-8") as settings:
            settings.write("\n[gpu_watch]\nquiet_s = 0\n")

    def _bare(self) -> dict[str, Any]:
        """As an owner would start it: with the machine's own Python, from a folder of theirs."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        words = ["python3", "-c", self.machine.program]
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=True
        )
        return _rates(done.stdout)

    def _as_a_job(self, campus: LocalCampus, name: str, found: dict[str, Any]) -> dict[str, Any]:
        campus.start_agent(name, **self.machine.agent_environment)
        client = campus.client()
        try:
            node = _until(f"{name} is heard", lambda: _node(client, name))
            gpu = node["gpus"][0]
            found.setdefault("gpu", gpu["model"])
            found.setdefault("heard", {key: gpu[key] for key in self.machine.nvidia_smi})
            found["runtimes"][name] = node["runtime"]
            job = str(client.submit(self._job())["job"]["id"])
            # What a program said last may come a moment after its end was heard.
            return _rates(_until(f"the job in {name} tells its rates", lambda: _told(client, job)))
        finally:
            campus.stop_agent(name)

    def _job(self) -> dict[str, Any]:
        said = self.machine.nvidia_smi
        resources = {"gpus": 1, "cpus": self.machine.cpus, "memory": self.machine.memory_bytes}
        asked = {key: f">={said[key]}" for key in ("compute_capability", "cuda")}
        return {
            "name": "training",
            "command": ["python3", "-c", self.machine.program],
            "resources": resources | asked,
        }


def _node(client: Client, name: str) -> dict[str, Any] | None:
    rows = [row for row in client.nodes() if row["id"] == name and row["connected"] and row["gpus"]]
    return rows[0] if rows and rows[0]["phase"] == "sharing" else None


def _told(client: Client, job: str) -> str | None:
    text = str(client.logs(job)["text"])
    if client.job(job)["phase"] == "failed":
        story = [line["sentence"] for line in client.why(job).get("story", [])]
        raise SceneTrouble(f"the job has failed: {' '.join(story[-4:])}\n{text[-2000:]}")
    return text if MARK in text and client.job(job)["ended_at"] else None


def _rates(text: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(text.partition(MARK)[2].partition("\n")[0])
    return answer


def _until(what: str, look: Callable[[], Any]) -> Any:
    until_s = time.monotonic() + LIMIT_S
    while (found := look()) is None:
        if time.monotonic() > until_s:
            raise SceneTrouble(f"{what}: not within {LIMIT_S:.0f} s")
        time.sleep(POLL_S)
    return found
