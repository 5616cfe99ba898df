"""A driver that hangs while a job runs in windows: what was seen before counts, and nobody waits for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.adapters.http.requests import HttpRegistrar
from gpunion.agent.link.joining import JoinRequest, join
from gpunion.domain.jobs.job import CheckpointWish, JobSpec
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import GIB, MIB, Request
from gpunion.policy.policies import LIVE
from tests.builders.calendars import an_appointment
from tests.gpu.rehearsal import rehearsed
from tests.gpu.scene import NODE
from tests.integration.agent.campus import TIMING, TestCampus, eventually
from tests.integration.agent.machine import Machine
from tests.unit.nvml.cards import FakeDriver

pytestmark = [pytest.mark.timeout(300)]

# Saved by a command: its steps are seconds.
WAITS = """
import time
print("waits", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("seen_before", [True, False])
async def test_a_driver_that_hangs_leaves_what_was_seen_before_and_keeps_nobody(
    tmp_path: Path, seen_before: bool
) -> None:
    campus = TestCampus(replace(TIMING), policies=LIVE)
    machine = Machine(campus, tmp_path / "campus", NODE)
    await campus.start()
    with rehearsed(tmp_path, tmp_path / "campus") as props:
        try:
            terms = Terms(allow_unsandboxed=True)
            request = JoinRequest(
                url=campus.url, join_token="once", name=NODE, lab="lab", state_dir=machine.state_dir,
                vault=str(tmp_path / "vault"), terms=terms,
            )  # fmt: skip
            await join(request, HttpRegistrar(campus.url))
            machine.boot(**props.agent_environment)
            await machine.listening()
            await eventually(lambda: campus.station.engine.state.nodes, "the machine is here")
            spec = JobSpec(
                name="job",
                command=("python3", "-c", WAITS),
                owner="student",
                request=Request(gpus=1, cpus=0.5, memory_bytes=64 * MIB),
                checkpoint=CheckpointWish(max_interval_s=600.0, command=("true",)),
                atomizable=True,
            )
            if not seen_before:
                hangs(tmp_path)
                await eventually(lambda: not answers(machine), "the driver is seen to hang")
            job = campus.submit_spec("job", spec)
            await eventually(lambda: b"waits" in campus.logs.get("job-e1", b""), "it runs")
            await asyncio.sleep(2.0)
            hangs(tmp_path)
            await eventually(lambda: not answers(machine), "the driver is seen to hang")
            calendar = an_appointment(tmp_path / "calendar.ics", in_s=15.0, lasts_s=600.0)
            await machine.owner("terms", set={"calendar": str(calendar)})
            await eventually(lambda: campus.runs(job)[0].end_reason is not None, "its piece is over")
        finally:
            machine.clear_up()
            await campus.stop()
    profile = campus.job(job).profile or Profile()
    assert campus.runs(job)[0].end_reason is EndReason.SAVED, campus.story
    assert profile.steps >= 1
    assert (max(profile.peaks_bytes, default=0) >= GIB) == seen_before


def hangs(folder: Path) -> None:
    FakeDriver(folder / "nvml.json").says(hang=True)


def answers(machine: Machine) -> bool:
    return not machine.status()["gpus_not_seen"]
