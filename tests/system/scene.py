"""A small campus of real processes, a job that leaves a trail, and what must be true of the trail."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gpunion.cli.demo.campus import Lab, LocalCampus
from gpunion.sdk.errors import ClientError
from tests.system.nursery import fork_module
from tests.system.trail import Trail

JOB_FILE = Path(__file__).with_name("beating_job.py")
# Waits that are short for a test and long for a process on a busy machine.
TIMING = {
    "heartbeat_s": 0.3,
    "lease_s": 4.0,
    "grace_s": 2.0,
    "resend_s": 0.5,
    "replan_s": 1.0,
    "avoid_s": 1.0,
}
# For tests in which nobody is to lose a lease: on a machine that stands still for some seconds that would be
# one more interruption, and another story.
PATIENT = {"lease_s": 60.0}
LIMIT_S = 120.0


@dataclass(slots=True)
class Scene:
    campus: LocalCampus
    trail: Trail
    submitted: int = 0
    durable: dict[str, int] = field(default_factory=dict)
    saves_garbage: bool = False  # its jobs may go back to an earlier save

    @classmethod
    def open(
        cls,
        root: Path,
        labs: tuple[str, ...] = ("a", "b"),
        *,
        vault: str | None = None,
        timing: Mapping[str, float] | None = None,
        config: Path | None = None,
        environments: Mapping[str, Mapping[str, str]] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Scene:
        """`vault`: where its nodes are told to keep checkpoints, in place of the folder they share.
        `environments`: what single agents, and the "coordinator", have of their own; `settings`: what their
        owners add to agent.toml."""
        campus = LocalCampus(
            root=root,
            timing={**TIMING, **(timing or {})},
            unsandboxed=True,
            spawn=fork_module,
            config=config,
            environment={
                "GPUNION_COORDINATOR_LOG_FORMAT": "json",
                "GPUNION_COORDINATOR_STRICT_AUDIT": "true",
            },
        )
        environments = environments or {}
        campus.start_coordinator(**environments.get("coordinator", {}))
        scene = cls(campus=campus, trail=Trail(root))
        for number, name in enumerate(labs):
            campus.join(Lab(name=name, lab=name.upper(), model="TEST", memory_gib=8, speed=1.0 - number / 10))
        for name, text in (settings or {}).items():
            with open(campus.state_dir(name) / "agent.toml", "a", encoding="utf-8") as file:
                file.write(f"\n{text}\n")
        first = [name for name in labs if settings and name in settings]
        rest = [name for name in labs if name not in first]
        alone = [*first, *rest] if environments else first
        for group in [*((name,) for name in alone), *([] if environments or not rest else [tuple(rest)])]:
            own = dict(environments.get(group[0], {}))
            campus.start_agent(*group, **own, **({} if vault is None else {"GPUNION_VAULT": vault}))
        return scene

    def submit(
        self,
        *,
        steps: int = 30,
        step_s: float = 0.05,
        every_s: float = 1.0,
        key: str = "",
        encrypt: bool = False,
        **wishes: Any,
    ) -> str:
        digest = self.patiently(lambda: self.campus.client().put_tree({JOB_FILE.name: JOB_FILE.read_bytes()}))
        job = {
            "name": f"beating-{self.submitted}",
            "command": ["python", JOB_FILE.name, str(steps), str(step_s)],
            "bundle": digest,
            "resources": {"gpus": 1, "cpus": 0.1, "memory": "64MiB"},
            "checkpoint": {"max_interval_s": every_s, "encrypt": encrypt},
            **wishes,
        }
        key = key or f"key-{time.monotonic_ns()}"
        answer = self.patiently(lambda: self.campus.client().submit(job, idempotency_key=key))
        self.submitted += 1
        return str(answer["job"]["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        """The job now; on the way, its durable step is seen never to go back where its saves are sound."""
        job = self.patiently(lambda: self.campus.client().job(job_id))
        step = job["durable"]["step"] if job["durable"] else 0
        went_back = step < self.durable.get(job_id, 0)
        assert self.saves_garbage or not went_back, f"the durable step of {job_id} went back to {step}"
        self.durable[job_id] = step
        return job

    def until(self, job_id: str, what: str, true_of: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        until_s = time.monotonic() + LIMIT_S
        while True:
            job = self.job(job_id)
            if true_of(job):
                return job
            assert time.monotonic() < until_s, (
                f"not {what} in {LIMIT_S} s: {job['phase']}\n{self.story(job_id)}"
            )
            time.sleep(0.05)

    def until_phase(self, job_id: str, *phases: str) -> dict[str, Any]:
        return self.until(job_id, " or ".join(phases), lambda job: job["phase"] in phases)

    def until_over(self, job_id: str) -> dict[str, Any]:
        return self.until_phase(job_id, "succeeded", "failed", "cancelled")

    def beats(self, job_id: str) -> list[tuple[int, float, int]]:
        return self.trail.beats(job_id)

    def until_beating(self, job_id: str, at_least: int = 3) -> None:
        until_s = time.monotonic() + LIMIT_S
        while len(self.beats(job_id)) < at_least:
            assert time.monotonic() < until_s, f"no beats\n{self.story(job_id)}"
            time.sleep(0.02)

    def until_told(self, job_id: str, words: str, times: int = 1) -> str:
        """What its program printed, in all its runs, once it has printed these words so often."""
        until_s = time.monotonic() + LIMIT_S
        text, offset = "", 0
        while text.count(words) < times:
            assert time.monotonic() < until_s, f"it never said {words!r}\n{self.story(job_id)}"
            page = self.patiently(partial(self.campus.client().logs, job_id, offset=offset))
            text, offset = text + page["text"], page["next_offset"]
            time.sleep(0.05)
        return text

    def story(self, job_id: str) -> str:
        lines = self.patiently(lambda: self.campus.client().why(job_id))["story"]
        return "\n".join(f"{line['at']} {line['sentence']}" for line in lines)

    def patiently(self, call: Callable[[], Any]) -> Any:
        """The coordinator may be down for a moment: that is what these tests are about."""
        until_s = time.monotonic() + LIMIT_S
        while True:
            try:
                return call()
            except (ClientError, OSError) as error:
                # OSError: the address file is being rewritten by a coordinator that starts.
                if time.monotonic() > until_s or getattr(error, "status", 503) < 500:
                    raise
                time.sleep(0.05)

    def check_trail(self, job_id: str) -> None:
        """No two incarnations at once, and every step done in order within one."""
        beats = self.beats(job_id)
        assert beats, "the job never beat"
        by_epoch: dict[int, list[tuple[float, int]]] = {}
        for epoch, at_s, step in beats:
            by_epoch.setdefault(epoch, []).append((at_s, step))
        epochs = sorted(by_epoch)
        for earlier, later in itertools.pairwise(epochs):
            ended_s = max(at_s for at_s, _ in by_epoch[earlier])
            began_s = min(at_s for at_s, _ in by_epoch[later])
            assert ended_s < began_s, f"epochs {earlier} and {later} of {job_id} overlap"
        for epoch, rows in by_epoch.items():
            steps = [step for _, step in rows]
            assert steps == list(range(steps[0], steps[0] + len(steps))), f"epoch {epoch} skipped: {steps}"

    def check_audit(self) -> None:
        assert self.patiently(lambda: self.campus.client().audit())["violations"] == []

    def close(self) -> None:
        self.trail.close()
        self.campus.close()
