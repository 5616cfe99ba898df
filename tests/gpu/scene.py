"""The play on one machine with one GPU: a guest comes, the owner computes, it yields, comes back, is killed.

Everything is measured from outside: by the owner's socket, the coordinator's API and the driver's figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpunion.agent.compose.coordinator_requests import join
from gpunion.agent.link.joining import JoinRequest
from gpunion.agent.owner import client as owner_client
from gpunion.agent.settings import SETTINGS_FILE
from gpunion.agent.terms.file import TERMS_FILE
from gpunion.cli.demo.campus import LocalCampus
from gpunion.domain.nodes.terms import Terms

NODE = "lab"
LIMIT_S = 120.0
POLL_S = 0.01
YIELD_NOTICE_S = 10.0
QUIET_S = 2.0
# Heartbeats and leases as in the product; only the waits between looks at waiting jobs are short.
TIMING = {"replan_s": 2.0}
# What contexts of other processes may move while we measure.
SLACK_BYTES = 64 * 1024**2


class SceneTrouble(Exception):
    """What did not happen in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Props:
    """What differs between a real GPU and a rehearsal."""

    guest: str
    owner: str
    used_bytes: Callable[[], int]
    unsandboxed: bool
    runtime: str = "sandbox"
    agent_environment: Mapping[str, str] = field(default_factory=dict)
    owner_environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Scene:
    root: Path
    props: Props
    found: dict[str, Any] = field(default_factory=dict)
    agreed: str = ""  # the owner's terms in full, where they are not as usual

    def play(self) -> dict[str, Any]:
        campus = LocalCampus(root=self.root, timing=TIMING, unsandboxed=self.props.unsandboxed)
        try:
            self._open(campus)
            self._inventory()
            idle_bytes = self.props.used_bytes()
            job = self._submit(campus)
            self._guest_is_seen(campus, job)
            self._acts(campus, job, idle_bytes)
            return self.found
        except BaseException:
            self._show_logs(campus)
            raise
        finally:
            campus.close()

    def _acts(self, campus: LocalCampus, job: str, idle_bytes: int) -> None:
        self._owner_computes(campus, job)
        self._guest_comes_back(campus, job)
        self._owner_kills(idle_bytes)

    # --- the acts --------------------------------------------------------------------------------

    def _open(self, campus: LocalCampus) -> None:
        campus.start_coordinator()
        token = campus.client().make_join_token()["join_token"]
        join(
            JoinRequest(
                url=campus.url,
                join_token=token,
                name=NODE,
                lab="Lab",
                state_dir=self._state_dir,
                runtime=self.props.runtime,
                terms=Terms(allow_unsandboxed=self.props.unsandboxed),
            )
        )
        with (self._state_dir / SETTINGS_FILE).open("a", encoding="utf-8") as settings:
            settings.write(f"\n[gpu_watch]\nyield_notice_s = {YIELD_NOTICE_S}\nquiet_s = {QUIET_S}\n")
        if self.agreed:
            (self._state_dir / TERMS_FILE).write_text(self.agreed, encoding="utf-8")
        campus.start_agent(NODE, **self.props.agent_environment)

    def _inventory(self) -> None:
        row = self._until("the GPU is seen", lambda: self._gpu() if self._gpu().get("uuid") else None)
        self.found["gpu"] = {key: row[key] for key in ("model", "memory_bytes", "speed", "declared", "uuid")}
        self.found["runtime"] = self._status()["runtime"]["described"]

    def _submit(self, campus: LocalCampus) -> str:
        job = {
            "name": "training",
            "command": ["python3", "-c", self.props.guest],
            "resources": {"gpus": 1, "memory": 16 * 1024**3},
            "checkpoint": {"min_interval_s": 2.0, "max_interval_s": 5.0},
        }
        return str(campus.client().submit(job)["job"]["id"])

    def _guest_is_seen(self, campus: LocalCampus, job: str) -> None:
        client = campus.client()
        text = self._until("the job says what it sees", lambda: self._line(client.logs(job)["text"], "SEEN "))
        self.found["job_sees"] = json.loads(text)
        process = self._until("the driver's list names the guest", lambda: self._process_of(f"{job}-e1"))
        row = self._gpu()
        self.found["attributed"] = {
            "process": process,
            "own_work_seen": any(p["run_id"] is None and not p["ignored"] for p in row["processes"]),
            **{key: row[key] for key in ("memory_used_bytes", "utilisation", "temperature_c", "power_w")},
        }
        self._until("a checkpoint is durable", lambda: client.job(job)["durable"])

    def _owner_computes(self, campus: LocalCampus, job: str) -> None:
        began_s = time.time()
        owner = OwnWork(self.props.owner, self.props.owner_environment)
        try:
            self._until("the agent yields", lambda: self._gpu()["withheld"])
            yielded_s = time.time()
            withheld = self._gpu()["withheld"]
            ready_s = self._until("the owner's memory is on the GPU", lambda: owner.ready_s)
            self._until("the GPU is the owner's", lambda: self._gpu()["withheld"]["phase"] == "reclaimed")
            free_s = time.time()
            detail = campus.client().why(job)
        finally:
            owner.end()
        self.found["yield"] = {
            "cause": withheld["cause"],
            "detail": withheld["detail"],
            "after_owner_started_s": round(yielded_s - began_s, 3),
            "after_owner_memory_on_gpu_s": round(yielded_s - ready_s, 3),
            "guest_gone_after_yield_s": round(free_s - yielded_s, 3),
            "told_to_the_job": [line["sentence"] for line in detail.get("story", [])][-4:],
        }

    def _guest_comes_back(self, campus: LocalCampus, job: str) -> None:
        client = campus.client()
        gone_s = time.time()
        self._until("the GPU is lent again", lambda: self._gpu()["withheld"] is None)
        self.found["lent_again_after_s"] = round(time.time() - gone_s, 3)
        resumed = self._until("the job goes on", lambda: self._resumed(client.job(job)))
        self.found["resumed_at_step"] = resumed
        run = f"{job}-e{client.job(job)['epoch']}"
        self._until("the new run is on the GPU", lambda: self._process_of(run))
        self._until("its memory is there", lambda: (self._gpu()["memory_used_bytes"] or 0) > 0)

    def _owner_kills(self, idle_bytes: int) -> None:
        before_bytes = self.props.used_bytes()
        began_s = time.monotonic()
        command = [sys.executable, "-m", "gpunion", "kill", "--state-dir", str(self._state_dir), "--json"]
        killing = subprocess.Popen(command, stdout=subprocess.PIPE)
        self._until("the GPU's memory is free", lambda: self.props.used_bytes() <= idle_bytes + SLACK_BYTES)
        freed_s = time.monotonic() - began_s
        receipt = json.loads(killing.communicate()[0])
        self.found["kill"] = {
            "memory_free_after_s": round(freed_s, 3),
            "command_took_s": round(receipt["took_s"], 3),
            "used_before_bytes": before_bytes,
            "used_after_bytes": self.props.used_bytes(),
            "idle_bytes": idle_bytes,
            "ended": receipt["ended"],
        }

    # --- looking ---------------------------------------------------------------------------------

    @property
    def _state_dir(self) -> Path:
        return self.root / NODE

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = owner_client.status(self._state_dir)["status"]
        return status

    def _gpu(self) -> dict[str, Any]:
        gpus: list[dict[str, Any]] = self._status()["gpus"]
        return gpus[0] if gpus else {}

    def _process_of(self, run_id: str) -> dict[str, Any] | None:
        return next((p for p in self._gpu()["processes"] if p["run_id"] == run_id), None)

    def _resumed(self, job: Mapping[str, Any]) -> int | None:
        runs = [run for run in job["runs"] if run["epoch"] == job["epoch"]]
        return runs[0]["resumed_step"] if job["epoch"] > 1 and runs and runs[0]["started_at"] else None

    def _line(self, text: str, begin: str) -> str | None:
        lines = (line.removeprefix(begin) for line in text.splitlines() if line.startswith(begin))
        return next(lines, None)

    def _until(self, what: str, look: Callable[[], Any]) -> Any:
        until_s = time.monotonic() + LIMIT_S
        while True:
            found = look()
            if found is not None and found is not False and found != {}:
                return found
            if time.monotonic() > until_s:
                raise SceneTrouble(f"{what}: not within {LIMIT_S:.0f} s")
            time.sleep(POLL_S)

    def _show_logs(self, campus: LocalCampus) -> None:
        for name in ("coordinator", NODE):
            path = campus.log_of(name)
            lines = path.read_text(errors="replace").splitlines()[-40:] if path.exists() else []
            print(f"--- {name}", *lines, sep="\n", file=sys.stderr)
        for path in sorted(self._state_dir.glob("guests/*/log.txt")):
            lines = path.read_text(errors="replace").splitlines()[-40:]
            print(f"--- {path.parent.name}", *lines, sep="\n", file=sys.stderr)


def without_our_paths() -> dict[str, str]:
    """The owner's Python is the machine's own, with the machine's PyTorch and what belongs to it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


class OwnWork:
    """The owner's own program, started as an owner would: the agent knows nothing of it."""

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        self.ready_s: float | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**without_our_paths(), **environment},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("READY "):
                self.ready_s = float(line.split()[1])

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(5.0)
