"""A gang of two on three machines: when one owner comes back both go on, from one step, and both finish."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpunion.agent.owner import client as owner_client
from tests.system.scene import Scene

pytestmark = [pytest.mark.xdist_group("gangs"), pytest.mark.timeout(300)]

JOB_FILE = Path(__file__).with_name("gang_job.py")
LABS = ("a", "b", "c")
NOTICE_S = 60.0  # long for a test: how long a busy machine takes is no matter of the outcome
STEPS_AFTERWARDS = 40
NEEDS = {"gpus": 1, "cpus": 0.1, "memory": "64MiB"}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    # A lease that a busy machine does not lose: one more interruption would be another story.
    opened = Scene.open(tmp_path / "campus", labs=LABS, timing={"lease_s": 30.0})
    try:
        until_all_lend(opened)
        yield opened
    finally:
        opened.close()


def until_all_lend(scene: Scene) -> None:
    """A gang that finds fewer machines than it needs is turned away at once."""
    until_s = time.monotonic() + 120.0
    while [node["phase"] for node in scene.campus.client().nodes()] != ["sharing"] * len(LABS):
        assert time.monotonic() < until_s, "not all machines lend"
        time.sleep(0.05)


def submit_pair(scene: Scene, *words: str) -> list[str]:
    """A gang that ends only after it was moved."""
    digest = scene.campus.client().put_tree({JOB_FILE.name: JOB_FILE.read_bytes()})
    job = {
        "name": "pair",
        "gang": 2,
        "command": ["python", JOB_FILE.name, str(STEPS_AFTERWARDS), "0.02", *words],
        "bundle": digest,
        "resources": NEEDS,
        "checkpoint": {"max_interval_s": 1.0},
    }
    return list(scene.campus.client().submit(job)["job"]["gang"]["members"])


def run_of(job: dict[str, Any], epoch: int) -> dict[str, Any]:
    found: dict[str, Any] = next(run for run in job["runs"] if run["epoch"] == epoch)
    return found


def test_when_one_owner_comes_back_both_members_go_on_from_one_step(scene: Scene) -> None:
    both = submit_pair(scene)
    for member in both:
        scene.until(member, "saved", lambda job: job["durable"] is not None)
    homes = [run_of(scene.job(member), 1)["node_id"] for member in both]
    assert len(set(homes)) == 2

    owner_client.reclaim(scene.campus.state_dir(homes[1]), NOTICE_S)
    ended = [scene.until_over(member) for member in both]
    assert [job["phase"] for job in ended] == ["succeeded", "succeeded"], scene.story(both[0])
    [step] = {run_of(job, 2)["resumed_step"] for job in ended}
    assert step > 0
    assert run_of(ended[1], 2)["node_id"] not in homes
    assert f"member 1 has to leave {homes[1]}: its owner wants it back" in scene.story(both[0])
    assert f"the owner of {homes[1]} wants it back" in scene.story(both[1])
    for member in both:
        scene.check_trail(member)
        last = max(epoch for epoch, _, _ in scene.beats(member))
        first_step = {epoch: step for epoch, _, step in reversed(scene.beats(member))}
        assert first_step[1] == 0
        assert first_step[last] == run_of(scene.job(member), last)["resumed_step"]
    scene.check_audit()


def test_when_one_member_saved_garbage_both_go_back_to_the_common_save_before(scene: Scene) -> None:
    scene.saves_garbage = True
    both = submit_pair(scene, "spoil-the-last-save")
    for member in both:
        scene.until(member, "saved", lambda job: job["durable"] is not None)
    owner_client.reclaim(scene.campus.state_dir(run_of(scene.job(both[1]), 1)["node_id"]), NOTICE_S)
    ended = [scene.until_over(member) for member in both]
    stories = [scene.story(member) for member in both]
    assert [job["phase"] for job in ended] == ["succeeded", "succeeded"], stories[0]
    [given] = {run_of(job, 2)["resumed_step"] for job in ended}
    [went_on_from] = {run_of(job, job["epoch"])["resumed_step"] for job in ended}
    assert 0 < went_on_from < given
    for story in stories:
        assert f"member 1 could not go on from what all had saved at step {given} (exit code 1" in story
        assert f"all 2 members go on from the save before, step {went_on_from}" in story
    scene.check_audit()


def test_a_member_that_fails_fails_both_and_who_stops_one_stops_both(scene: Scene) -> None:
    program = "import os, sys, time\nif os.environ['GPUNION_GANG_RANK'] == '1': sys.exit(7)\ntime.sleep(600)"
    job = {"name": "broken", "gang": 2, "command": ["python", "-c", program], "resources": NEEDS}
    both = scene.campus.client().submit(job)["job"]["gang"]["members"]
    assert [scene.until_over(member)["phase"] for member in both] == ["failed", "failed"]
    assert "member 1 of its gang failed: exit code 7" in scene.story(both[0])

    both = submit_pair(scene)
    for member in both:
        scene.until_beating(member)
    scene.campus.client().stop(both[1])
    assert [scene.until_over(member)["phase"] for member in both] == ["cancelled", "cancelled"]
