"""The play of jobs that run in windows: a machine with one GPU, its agent, and a coordinator in memory, whose
records can be read and prepared. What guests do is real: their steps, their memory, what the driver says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gpunion
from gpunion.adapters.http.requests import HttpRegistrar
from gpunion.agent.link.joining import JoinRequest, join
from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import CheckpointWish, JobPhase, JobSpec
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import Request
from gpunion.policy.policies import LIVE
from tests.builders.calendars import an_appointment
from tests.gpu.scene import NODE, Props, without_our_paths
from tests.integration.agent.campus import TIMING, TestCampus, eventually
from tests.integration.agent.machine import Machine

OURS = str(Path(gpunion.__file__).parent.parent)
OWN_WORDS = "gpunion: its window ends"
APPOINTMENT_IN_S, APPOINTMENT_S = 15.0, 600.0
HELD_S = 2.0  # some looks of the agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    device: str
    train: str
    wrapped: str
    greedy: str
    steps: int
    width: int
    held_bytes: int  # by the program that is saved from outside
    lent_bytes: int  # of the card, to the greedy one
    piece_bytes: int
    memory_bytes: int  # of the machine, for each of them

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DEVICE": self.device,
            "STEPS": str(self.steps),
            "WIDTH": str(self.width),
            "BYTES": str(self.held_bytes),
            "PIECE": str(self.piece_bytes),
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        }


@dataclass
class WindowsScene:
    root: Path
    props: Props
    size: Size
    found: dict[str, Any] = field(default_factory=dict)

    def play(self) -> dict[str, Any]:
        self.root.mkdir(parents=True, exist_ok=True)
        self.found["weights_alone"] = self._alone()
        asyncio.run(self._play())
        return self.found

    def _alone(self) -> str:
        """The same training by itself, before anybody else is on the card."""
        began_s = time.monotonic()
        environment = {**without_our_paths(), **self.size.environment, "PYTHONPATH": OURS}
        ended = subprocess.run(
            [sys.executable, "-c", self.size.train],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if ended.returncode:
            raise RuntimeError(f"the training by itself failed: {ended.stderr[-2000:]}")
        self.found["alone_took_s"] = round(time.monotonic() - began_s, 2)
        return _said(ended.stdout, "WEIGHTS ")

    async def _play(self) -> None:
        campus = TestCampus(replace(TIMING, heartbeat_s=1.0), policies=LIVE)
        machine = Machine(campus, self.root, NODE)
        await campus.start()
        try:
            await self._open(campus, machine)
            acts = {
                "training": self._trains_in_windows,
                "greedy": self._wants_more_than_it_is_lent,
                "wrapped": self._is_saved_from_outside,
            }
            for name, act in acts.items():
                began_s = time.monotonic()
                try:
                    self.found[name] = await act(campus, machine)
                except Exception:
                    self.found[name] = {"trouble": traceback.format_exc(limit=3)[-2000:]}
                    self._show(campus, machine)
                    await self._clear_the_card(campus, machine)
                self.found[name]["took_s"] = round(time.monotonic() - began_s, 2)
        finally:
            machine.clear_up()
            await campus.stop()

    async def _open(self, campus: TestCampus, machine: Machine) -> None:
        request = JoinRequest(
            url=campus.url,
            join_token="once",
            name=NODE,
            lab="lab",
            state_dir=machine.state_dir,
            vault=str(self.root / "vault"),
            terms=Terms(allow_unsandboxed=self.props.unsandboxed),
        )
        await join(request, HttpRegistrar(campus.url))
        machine.boot(**self.props.agent_environment)
        await machine.listening()
        await eventually(lambda: campus.station.engine.state.nodes, "the machine is here")
        [node] = campus.station.engine.state.nodes.values()
        [gpu] = node.facts.capacity.gpus
        self.found["gpu"] = {
            "model": gpu.model,
            "memory_bytes": gpu.memory_bytes,
            "speed": gpu.speed,
            "declared": gpu.declared,
        }
        self.found["sandboxed"] = node.facts.sandboxed

    async def _clear_the_card(self, campus: TestCampus, machine: Machine) -> None:
        """For the next act, after one that failed."""
        with suppress(Exception):
            await machine.owner("terms", set={"calendar": ""})
            for job_id, job in list(campus.station.engine.state.jobs.items()):
                if not job.phase.over and job_id != "greedy":
                    campus.stop_job(job_id)
            await eventually(lambda: not machine.living_guests(), "nobody is on the card")

    # --- the acts --------------------------------------------------------------------------------

    async def _trains_in_windows(self, campus: TestCampus, machine: Machine) -> dict[str, Any]:
        """Its owner has an appointment: it ends its piece by itself, and goes on when that is called off."""
        job = self._submit(campus, "training", self.size.train)
        await eventually(lambda: "TRAINS" in _log(campus, "training-e1"), "it trains")
        await asyncio.sleep(2.0)
        await machine.owner("terms", set={"calendar": str(self._an_appointment())})
        told_s = time.monotonic()
        await eventually(lambda: campus.runs(job)[0].end_reason is not None, "its first piece is over")
        run, profile = campus.runs(job)[0], campus.job(job).profile or Profile()
        over_s = time.monotonic() - told_s
        await eventually(lambda: "MEASURED " in _log(campus, "training-e1"), "it tells what it measured")
        measured = json.loads(_said(_log(campus, "training-e1"), "MEASURED "))
        first = _seen(profile)
        await machine.owner("terms", set={"calendar": ""})
        await eventually(lambda: "TRAINS" in _log(campus, "training-e2"), "it trains again")
        await self._hand_in_the_next(campus, machine)
        await eventually(lambda: campus.job(job).phase.over, "it ends")
        last = campus.runs(job)[-1].id
        await eventually(lambda: "WEIGHTS " in _log(campus, last), "it tells its weights")
        logs = [_log(campus, one.id) for one in campus.runs(job)]
        return {
            "window_ended_by": None if run.subjob is None else run.subjob.end.value,
            "piece_over_after_s": round(over_s, 2),
            "by_itself": OWN_WORDS in logs[0],
            "words": [line for line in logs[0].splitlines() if OWN_WORDS in line],
            "end_reason": run.end_reason,
            "profile_after_one_piece": first,
            "measured_by_the_program": measured,
            "profile_at_the_end": _seen(campus.job(job).profile or Profile()),
            "pieces": len(campus.runs(job)),
            "phase": campus.job(job).phase,
            "weights": _said(logs[-1], "WEIGHTS "),
        }

    async def _is_saved_from_outside(self, campus: TestCampus, machine: Machine) -> dict[str, Any]:
        wish = CheckpointWish(max_interval_s=600.0, command=("true",))
        job = self._submit(campus, "wrapped", self.size.wrapped, checkpoint=wish)
        await eventually(lambda: "HOLDS" in _log(campus, "wrapped-e1"), "it holds its memory")
        await asyncio.sleep(HELD_S)
        await machine.owner("terms", set={"calendar": str(self._an_appointment())})
        await eventually(lambda: campus.runs(job)[0].end_reason is not None, "its piece is over")
        return {
            "end_reason": campus.runs(job)[0].end_reason,
            "held_bytes": self.size.held_bytes,
            "profile": _seen(campus.job(job).profile or Profile()),
        }

    async def _hand_in_the_next(self, campus: TestCampus, machine: Machine) -> None:
        """It asks for twice what its owner lends of the card from now on, and was seen to need an eighth of
        that. It waits for the card, which has enough when it is handed in."""
        asked_bytes, lent_bytes = 2 * self.size.lent_bytes, self.size.lent_bytes
        learned = Profile(peaks_bytes=(lent_bytes // 8,) * 19, pieces=19)
        self._submit(campus, "greedy", self.size.greedy, vram_bytes=asked_bytes, profile=learned)
        await machine.owner("terms", set={"caps.vram": str(lent_bytes)})
        nodes = campus.station.engine.state.nodes
        await eventually(
            lambda: all(node.facts.terms.vram_bytes == lent_bytes for node in nodes.values()),
            "the campus knows how much is lent",
        )

    async def _wants_more_than_it_is_lent(self, campus: TestCampus, machine: Machine) -> dict[str, Any]:
        job = JobId("greedy")
        if job not in campus.station.engine.state.jobs:
            raise RuntimeError("it was not handed in, since the act before did not come so far")
        await eventually(lambda: campus.runs(job) and campus.runs(job)[0].end_reason is not None, "it ends")
        run, now = campus.runs(job)[0], campus.job(job)
        with suppress(AssertionError):
            await eventually(lambda: "HELD " in _log(campus, run.id), "it tells what it held")
        log = _log(campus, run.id)
        return {
            "lent_bytes": self.size.lent_bytes,
            "told_bytes": None if run.subjob is None else run.subjob.limit_bytes,
            "held_bytes": int(_said(log, "HELD ") or 0),
            "out_of_memory": "OutOfMemoryError" in log,
            "end_reason": run.end_reason,
            "phase": now.phase,
            "out_of_memory_in_its_profile": None if now.profile is None else now.profile.out_of_memory,
            "floor_bytes": None if now.profile is None else now.profile.floor_bytes,
            "story": [line for line in campus.story if line.startswith("greedy")][-4:],
        }

    # --- what they need --------------------------------------------------------------------------

    def _submit(
        self,
        campus: TestCampus,
        name: str,
        program: str,
        *,
        checkpoint: CheckpointWish | None = None,
        vram_bytes: int = 0,
        profile: Profile | None = None,
    ) -> JobId:
        spec = JobSpec(
            name=name,
            command=("python3", "-c", program),
            owner="student",
            lab="students",
            request=Request(gpus=1, cpus=1.0, memory_bytes=self.size.memory_bytes, vram_bytes=vram_bytes),
            environment=tuple(sorted(self.size.environment.items())),
            checkpoint=checkpoint or CheckpointWish(max_interval_s=600.0),
            atomizable=True,
        )
        return campus.submit_spec(name, spec, profile)

    def _an_appointment(self) -> Path:
        calendar = self.root / "calendar.ics"
        return an_appointment(calendar, in_s=APPOINTMENT_IN_S, lasts_s=APPOINTMENT_S)

    def _show(self, campus: TestCampus, machine: Machine) -> None:
        print(*campus.story[-40:], sep="\n", file=sys.stderr)
        if machine.log.exists():
            print(machine.log.read_text(errors="replace")[-4000:], file=sys.stderr)
        for name, text in campus.logs.items():
            print(f"--- {name}", text.decode(errors="replace")[-3000:], sep="\n", file=sys.stderr)


def verdicts(found: Mapping[str, Any]) -> dict[str, bool]:
    judges = {"training": _of_training, "greedy": _of_greedy, "wrapped": _of_wrapped}
    said: dict[str, bool] = {}
    for name, judge in judges.items():
        played = "trouble" not in found[name]
        said |= judge(found, found[name]) if played else {f"{name}_was_played": False}
    return said


def _of_training(found: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, bool]:
    profile, measured = training["profile_after_one_piece"], training["measured_by_the_program"]
    speed = found["gpu"]["speed"]  # a profile is that of a reference GPU
    return {
        "step_times_arrive_in_the_profile": profile["steps"] >= 10
        and 0.5 <= profile["step_s"] / max(1e-9, speed * measured["step_s"]) <= 2.0,
        "peak_memory_arrives_in_the_profile": profile["peak_bytes"] >= measured["peak_bytes"] > 0,
        "the_program_ends_its_piece_by_itself": training["by_itself"]
        and training["end_reason"] is EndReason.SAVED
        and training["piece_over_after_s"] < APPOINTMENT_IN_S,
        "its_weights_are_those_of_an_uninterrupted_run": training["phase"] is JobPhase.SUCCEEDED
        and training["pieces"] >= 2
        and training["weights"] == found["weights_alone"] != "",
    }


def _of_greedy(found: Mapping[str, Any], greedy: Mapping[str, Any]) -> dict[str, bool]:
    return {
        "it_takes_no_more_than_it_is_lent": greedy["told_bytes"] == greedy["lent_bytes"]
        and 0 < greedy["held_bytes"] <= greedy["lent_bytes"],
        "out_of_memory_on_less_fails_no_job": greedy["out_of_memory"]
        and greedy["end_reason"] is EndReason.FAILED
        and not greedy["phase"].over
        and greedy["out_of_memory_in_its_profile"] == 1
        and any("it ran out of memory" in line for line in greedy["story"]),
    }


def _of_wrapped(found: Mapping[str, Any], wrapped: Mapping[str, Any]) -> dict[str, bool]:
    speed = found["gpu"]["speed"]
    return {
        "the_drivers_memory_of_a_wrapped_program_arrives": wrapped["end_reason"] is EndReason.SAVED
        and abs(wrapped["profile"]["step_s"] / speed - 1.0) < 1e-6
        and wrapped["profile"]["peak_bytes"] >= wrapped["held_bytes"],
    }


def _seen(profile: Profile) -> dict[str, Any]:
    return {
        "steps": profile.steps,
        "step_s": profile.step_s,
        "step_sd_s": profile.step_sd_s,
        "worst_step_s": profile.worst_step_s,
        "begins_s": profile.begins_s,
        "saves_s": profile.saves_s,
        "peak_bytes": max(profile.peaks_bytes, default=0),
    }


def _log(campus: TestCampus, run_id: str) -> str:
    return campus.logs.get(run_id, b"").decode(errors="replace")


def _said(text: str, begin: str) -> str:
    lines = [line.removeprefix(begin) for line in text.splitlines() if line.startswith(begin)]
    return lines[-1] if lines else ""
