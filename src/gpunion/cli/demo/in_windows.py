"""The play of windows: more jobs than GPUs, an owner's calendar, and a gang that needs two GPUs at once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpunion.agent.owner import client as owner_client
from gpunion.cli.demo.audience import Audience, DemoFailed, Job
from gpunion.cli.demo.campus import Lab, LocalCampus
from gpunion.cli.demo.epilogue import compare
from gpunion.cli.demo.training_job import Training, reference_run, submit
from gpunion.owner_kill.guest import guest_dirs, lives
from gpunion.sdk.client import Client

LABS = (
    Lab(name="alpha", lab="Alpha", model="A100", memory_gib=80, speed=1.0),
    Lab(name="beta", lab="Beta", model="RTX4090", memory_gib=24, speed=1.0, gpus=2),
)
TURN_S = 5.0
ENVIRONMENT = {
    "GPUNION_COORDINATOR_TURN_LEAST_S": str(TURN_S),
    "GPUNION_COORDINATOR_TURN_MOST_S": str(TURN_S),
}
CALENDAR_S = 60.0
NOTICE_S = 10.0  # of the owner of alpha; a calendar that is nearer than this is a reclaim already
EVENT_S = 3600.0  # longer than the play: nobody comes back to that machine in it
FIRST_STEP_S = 60.0  # what the play promises
ALONE = tuple(
    Training(name=name, steps=620, seed=seed) for seed, name in enumerate(("one", "two", "three", "four"), 1)
)
TOGETHER = Training(name="pair", steps=120, seed=5)
LIMIT_S = 300.0
POLL_S = 0.1
# What is told of each job: the rest is the same again and again.
TOLD = {
    *("window_given", "window_ends", "window_over", "window_missed", "window_save_lost"),
    *("place_promised", "promise_dropped", "placed", "succeeded", "finished"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    name: str
    first_step_s: float  # after it was handed in
    windows: int
    worked_s: float
    overhead_s: float
    weights_equal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    jobs: tuple[Played, ...]
    calendar_s: float  # after the jobs were handed in
    held_past_calendar_s: float
    elapsed_s: float

    @property
    def slowest_first_step_s(self) -> float:
        return max(job.first_step_s for job in self.jobs)

    @property
    def good(self) -> bool:
        prompt = self.slowest_first_step_s <= FIRST_STEP_S and self.held_past_calendar_s == 0
        return prompt and all(job.weights_equal for job in self.jobs)

    def plain(self) -> dict[str, Any]:
        return {
            "jobs": {
                job.name: {
                    "first_step_s": round(job.first_step_s, 2),
                    "windows": job.windows,
                    "worked_s": round(job.worked_s, 1),
                    "overhead_s": round(job.overhead_s, 1),
                    "weights_equal": job.weights_equal,
                }
                for job in self.jobs
            },
            "slowest_first_step_s": round(self.slowest_first_step_s, 2),
            "calendar_s": round(self.calendar_s, 1),
            "held_past_calendar_s": round(self.held_past_calendar_s, 2),
            "weights_equal": all(job.weights_equal for job in self.jobs),
            "elapsed_s": round(self.elapsed_s, 1),
        }


def play(campus: LocalCampus, audience: Audience) -> Outcome:
    """The campus is open."""
    client = campus.client()
    audience.act("Five uninterrupted runs, one after the other: the yardstick")
    references = {each.name: reference_run(campus.root, each) for each in (*ALONE, TOGETHER)}

    audience.act("Three GPUs, four jobs that run in windows, and a gang of two")
    ends_at = datetime.now(UTC) + timedelta(seconds=CALENDAR_S)
    terms = {"calendar": str(_calendar(campus.root, ends_at)), "notice": f"{NOTICE_S:.0f}s"}
    owner_client.change_terms(campus.state_dir("alpha"), terms)
    audience.tell(f"by its calendar the owner of alpha needs it in {CALENDAR_S:.0f} s")
    _until_known(client)
    crowd = Crowd(client=client, audience=audience, campus=campus, ends_at=ends_at)
    for each in ALONE:
        crowd.handed_in(submit(client, each, atomizable=True), each.name)
    crowd.handed_in(submit(client, TOGETHER, gang=2), TOGETHER.name, members=2)
    began_s = time.monotonic()
    crowd.follow(began_s + LIMIT_S)

    with audience.finished():
        jobs = tuple(crowd.played(job_id, references) for job_id in crowd.names)
        outcome = Outcome(
            jobs=jobs,
            calendar_s=(ends_at - crowd.began_at).total_seconds(),
            held_past_calendar_s=crowd.held_past_s,
            elapsed_s=time.monotonic() - began_s,
        )
        _show(outcome, audience)
    return outcome


@dataclass(slots=True)
class Crowd:
    """All jobs of the play, followed until the last has ended and the calendar was kept."""

    client: Client
    audience: Audience
    campus: LocalCampus
    ends_at: datetime
    names: dict[str, str] = field(default_factory=dict)
    of: dict[str, str] = field(default_factory=dict)  # of a gang the first member stands for all
    handed_in_s: dict[str, float] = field(default_factory=dict)
    first_step_s: dict[str, float] = field(default_factory=dict)
    held_past_s: float = 0.0
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _news: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)

    def handed_in(self, job_id: str, name: str, members: int = 1) -> None:
        self.of[job_id] = name
        for rank in range(members):
            one = job_id if rank == 0 else f"{job_id}-r{rank}"
            self.names[one] = name if members == 1 else f"{name} ({rank + 1} of {members})"
            self.handed_in_s[one] = time.monotonic()

    def follow(self, until_s: float) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            jobs = {job["id"]: job for job in self.client.all_jobs() if job["id"] in self.names}
            self._note(jobs.values())
            while not self._news.empty():
                self.audience.tell(self._news.get())
            self.audience.status("  ".join(_shown(name, jobs[one]) for one, name in self.of.items()))
            failed = [job for job in jobs.values() if job["phase"] in ("failed", "cancelled")]
            if failed:
                raise DemoFailed(f"{self.names[failed[0]['id']]} {failed[0]['phase']}")
            over = all(job["phase"] == "succeeded" for job in jobs.values())
            if over and datetime.now(UTC) > self.ends_at + timedelta(seconds=2):
                return
            if time.monotonic() > until_s:
                raise DemoFailed(f"not all jobs were done within {LIMIT_S:.0f} s")
            time.sleep(POLL_S)

    def played(self, job_id: str, references: Mapping[str, Path]) -> Played:
        job = self.client.job(job_id)
        pieces = job["pieces"] or {"windows": 0, "worked_s": 0.0, "overhead_s": 0.0}
        equal, _ = compare(self.campus.vault_dir, job, references[job["name"]])
        return Played(
            name=self.names[job_id],
            first_step_s=self.first_step_s[job_id],
            windows=pieces["windows"],
            worked_s=pieces["worked_s"],
            overhead_s=pieces["overhead_s"],
            weights_equal=equal,
        )

    def _note(self, jobs: Sequence[Job] | Any) -> None:
        now_s = time.monotonic()
        for job in jobs:
            live, durable = job["live"] or {}, job["durable"] or {}
            if job["id"] not in self.first_step_s and (live.get("step") or durable.get("step") or _done(job)):
                self.first_step_s[job["id"]] = now_s - self.handed_in_s[job["id"]]
                self._news.put(f"{self.names[job['id']]}: first step, {self.first_step_s[job['id']]:.1f} s")
        late_s = (datetime.now(UTC) - self.ends_at).total_seconds()
        if late_s > 0 and any(lives(guest) for guest in guest_dirs(str(self.campus.state_dir("alpha")))):
            self.held_past_s = late_s

    def _listen(self) -> None:
        for decision in self.client.events(since=0):
            for reason in decision["reasons"]:
                if reason["subject"] in self.names and reason["code"] in TOLD:
                    self._news.put(f"{self.names[reason['subject']]}: {reason['sentence']}")


def _done(job: Job) -> bool:
    return bool(job["phase"] == "succeeded")


def _shown(name: str, job: Job) -> str:
    share = 1.0 if _done(job) else float((job["live"] or job["durable"] or {}).get("progress", 0.0))
    where = "" if _done(job) else f" {job['node_id'] or 'waits'}"
    return f"{name} {share:.0%}{where}"


def _until_known(client: Client) -> None:
    until_s = time.monotonic() + 30.0
    while not any(node["known_end_at"] for node in client.nodes()):
        if time.monotonic() > until_s:
            raise DemoFailed("the campus did not learn of the calendar")
        time.sleep(POLL_S)


def _calendar(root: Path, begins_at: datetime) -> Path:
    path = root / "alpha.ics"
    ends_at = begins_at + timedelta(seconds=EVENT_S)
    lines = (
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//gpunion//demo//",
        "BEGIN:VEVENT",
        "UID:experiment@alpha",
        f"DTSTAMP:{begins_at:%Y%m%dT%H%M%SZ}",
        f"DTSTART:{begins_at:%Y%m%dT%H%M%SZ}",
        f"DTEND:{ends_at:%Y%m%dT%H%M%SZ}",
        "SUMMARY:an experiment of the lab",
        "END:VEVENT",
        "END:VCALENDAR",
    )
    path.write_text("\r\n".join(lines) + "\r\n")
    return path


def _show(outcome: Outcome, audience: Audience) -> None:
    audience.act("What it came to")
    audience.say(f"{'job':<16}{'first step after':>18}{'windows':>10}{'coming and going':>19}{'weights':>12}")
    for job in outcome.jobs:
        share = job.overhead_s / job.worked_s if job.worked_s else 0.0
        going = f"{share:.0%}" if job.windows else "-"
        equal = "equal" if job.weights_equal else "DIFFERENT"
        windows = str(job.windows) if job.windows else "-"
        audience.say(f"{job.name:<16}{job.first_step_s:>16.1f} s{windows:>10}{going:>19}{equal:>12}")
    audience.say("")
    held_s = outcome.held_past_calendar_s
    held = "nothing" if held_s == 0 else f"a guest, for {held_s:.1f} s"
    audience.say(f"held on alpha past its owner's calendar: {held}")
