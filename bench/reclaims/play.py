"""Eight machines behind capped cables, jobs whose state does not fit every notice, owners who come back.

Each machine is an agent in a network namespace of its own whose uplink is capped by the kernel; checkpoints
go to the vault through that cable. The jobs' state is noise, so that every byte of it has to be sent.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.moves.network import PATH, Network, network
from bench.moves.play import spawner
from gpunion.agent.owner import client as owner_client
from gpunion.cli.demo.campus import Lab, LocalCampus
from gpunion.owner_kill import kill_all
from gpunion.policy.bandwidth import RECLAIM_SHARE
from gpunion.sdk.errors import ClientError

HOSTS = tuple(f"n{number}" for number in range(1, 9))
UPLINK_BPS = 100e6
# Of megabytes; and seconds. At the half of the cable that a flush may use, 6.25 MB go in a second.
SIZES_MB = (1, 4, 12, 30, 60)
NOTICES_S = (2.0, 4.0, 8.0, 15.0, 30.0)
# Beside the sending: the program writes its state, the plan keeps a second and a twentieth in hand.
OVERHEAD_S = 2.0
LIMIT_S = 180.0
LOOK_S = 0.2
TIMING = {"heartbeat_s": 1.0, "lease_s": 15.0, "grace_s": 5.0, "replan_s": 2.0, "avoid_s": 1.0}

PROGRAM = """
import os, time
from pathlib import Path
from gpunion.sdk.job import training
count = [0]
def save(folder):
    (folder / "count").write_text(str(count[0]))
    (folder / "noise").write_bytes(os.urandom({size_bytes}))
def load(folder):
    count[0] = int((folder / "count").read_text())
for step in training.Training(total_steps=10**6, save=save, load=load).steps():
    assert count[0] == step, f"step {{step}}, but {{count[0]}} were counted"
    count[0] += 1
    time.sleep(0.2)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """What became of one job whose owner wanted the machine."""

    job: str
    size_mb: int
    notice_s: float
    in_time: bool  # its last steps were durable before the machine was its owner's
    steps_redone: int
    lost: int  # steps behind what was acknowledged as durable before
    late_s: float  # how long after the notice's end its last process was still there
    downtime_s: float | None
    reasons: tuple[str, ...]

    @property
    def needs_s(self) -> float:
        return self.size_mb * 8e6 / (RECLAIM_SHARE * UPLINK_BPS) + OVERHEAD_S

    @property
    def feasible(self) -> bool:
        return self.needs_s <= self.notice_s

    @property
    def hopeless(self) -> bool:
        """Not even with the whole cable."""
        return self.size_mb * 8e6 / UPLINK_BPS > self.notice_s


@dataclass(slots=True)
class Play:
    campus: LocalCampus
    jobs: dict[str, int] = field(default_factory=dict)  # id -> megabytes
    seen: list[Reclaim] = field(default_factory=list)
    _busy: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, every_s: float = 20.0) -> None:
        for number, size_mb in enumerate(SIZES_MB):
            job = {
                "name": f"state-{size_mb}-{number}",
                "command": ["python", "-c", PROGRAM.format(size_bytes=size_mb * 10**6)],
                "resources": {"gpus": 1, "cpus": 0.2, "memory": "256MiB"},
                "checkpoint": {"max_interval_s": every_s},
            }
            self.jobs[str(self.campus.client().submit(job)["job"]["id"])] = size_mb
        for job_id in self.jobs:
            self._until(f"{job_id} is saved once", lambda job_id=job_id: self._job(job_id)["durable"])

    def reclaim_some(self, count: int, seed: int, told: Callable[[Reclaim], None]) -> None:
        """One after another; several of these may go on at once, in threads."""
        dice = random.Random(seed)
        for _ in range(count):
            job = self._pick(dice)
            try:
                reclaim = self._reclaim(job, dice.choice(NOTICES_S))
            finally:
                with self._lock:
                    self._busy.discard(job["id"])
            with self._lock:
                self.seen.append(reclaim)
            told(reclaim)

    def _pick(self, dice: random.Random) -> dict[str, Any]:
        """A job that runs, has something durable, and is not on its way anywhere."""
        give_up_s = time.monotonic() + LIMIT_S
        while time.monotonic() < give_up_s:
            with self._lock:
                for job_id in dice.sample(sorted(self.jobs), len(self.jobs)):
                    job = None if job_id in self._busy else self._job(job_id)
                    if job is not None and _settled(job):
                        self._busy.add(job_id)
                        return job
            time.sleep(LOOK_S)
        raise TimeoutError("no job came to rest")

    def _reclaim(self, job: dict[str, Any], notice_s: float) -> Reclaim:
        job_id, node, epoch = job["id"], str(job["node_id"]), int(job["epoch"])
        known = len(job["migrations"])
        durable = int(self._job(job_id)["durable"]["step"])
        began_s = time.monotonic()
        owner_client.reclaim(self.campus.state_dir(node), notice_s)
        gone = threading.Thread(target=self._until_empty, args=(node, began_s, waited := []))
        gone.start()
        self._until(
            f"{job_id} runs elsewhere",
            lambda: self._job(job_id)["epoch"] > epoch and _settled(self._job(job_id)),
        )
        gone.join(LIMIT_S)
        owner_client.resume(self.campus.state_dir(node))
        after = self._job(job_id)
        migration = after["migrations"][known]
        resumed = next(run for run in after["runs"] if run["epoch"] == epoch + 1)
        story = self.campus.client().why(job_id)["story"]
        return Reclaim(
            job=job_id,
            size_mb=self.jobs[job_id],
            notice_s=notice_s,
            in_time=not migration["fell_back"] and migration["steps_redone"] == 0,
            steps_redone=int(migration["steps_redone"]),
            lost=max(0, durable - int(resumed["resumed_step"])),
            late_s=max(0.0, waited[0] - notice_s) if waited else float("inf"),
            downtime_s=migration["downtime_s"],
            reasons=tuple(line["code"] for line in story if line["at"] >= migration["started_at"]),
        )

    def _until_empty(self, node: str, began_s: float, waited: list[float]) -> None:
        """When nothing of a guest runs on the machine any more, as the machine itself says."""
        while time.monotonic() < began_s + LIMIT_S:
            if not owner_client.status(self.campus.state_dir(node))["status"]["guests"]:
                waited.append(time.monotonic() - began_s)
                return
            time.sleep(0.05)

    def _job(self, job_id: str) -> dict[str, Any]:
        give_up_s = time.monotonic() + LIMIT_S
        while True:
            try:
                return dict(self.campus.client().job(job_id))
            except ClientError:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(LOOK_S)

    def _until(self, what: str, true: Callable[[], Any]) -> None:
        give_up_s = time.monotonic() + LIMIT_S
        while not true():
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"not within {LIMIT_S:.0f} s: {what}")
            time.sleep(LOOK_S)


@contextmanager
def play(root: Path) -> Iterator[Play]:
    with network(HOSTS) as net:
        for host in HOSTS:
            _cap(net, host)
        campus = LocalCampus(root=root, timing=TIMING, spawn=spawner(net))
        try:
            campus.start_coordinator(GPUNION_COORDINATOR_HOST=net.address)
            for host in HOSTS:
                campus.join(Lab(name=host, lab=host.upper(), model="TEST", memory_gib=8, speed=1.0))
            campus.start_agent(*HOSTS, GPUNION_VAULT="campus", GPUNION_UPLINK_BPS=str(UPLINK_BPS))
            yield Play(campus=campus)
        finally:
            for host in HOSTS:
                kill_all(campus.state_dir(host))
            campus.close(keep_files=True)


def _settled(job: dict[str, Any]) -> bool:
    moving = [migration for migration in job["migrations"] if migration["resumed_at"] is None]
    return job["phase"] == "running" and job["durable"] is not None and not moving


def _cap(net: Network, host: str) -> None:
    words = ["tc", "-n", net.namespaces[host], "qdisc", "add", "dev", "eth0", "root", "tbf"]
    words += ["rate", f"{UPLINK_BPS / 1e6:.0f}mbit", "burst", "256kb", "latency", "300ms"]
    subprocess.run(words, check=True, capture_output=True, timeout=30, env={"PATH": PATH})
