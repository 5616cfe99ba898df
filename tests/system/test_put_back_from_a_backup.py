"""A coordinator whose database was put back to an earlier moment lends its machines again, unasked."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from gpunion.owner_kill.guest import guest_dirs, lives
from tests.system.scene import LIMIT_S, Scene


def test_a_machine_that_knows_more_than_its_coordinator_begins_anew_and_is_lent(tmp_path: Path) -> None:
    scene = Scene.open(tmp_path / "campus", labs=("a",))
    try:
        campus = scene.campus
        campus.stop_coordinator()
        shutil.copytree(campus.data_dir, tmp_path / "backup")
        campus.start_coordinator()
        scene.until_beating(scene.submit(steps=10_000))
        campus.stop_coordinator()
        shutil.rmtree(campus.data_dir)
        shutil.copytree(tmp_path / "backup", campus.data_dir)
        campus.start_coordinator()
        job = scene.until_over(scene.submit(steps=3))
        assert job["phase"] == "succeeded", scene.story(job["id"])
        assert campus.agent("a").poll() is None
        assert "coordinator_forgot" in campus.log_of("a").read_text()
        until_s = time.monotonic() + LIMIT_S
        while any(lives(guest) for guest in guest_dirs(str(campus.state_dir("a")))):
            assert time.monotonic() < until_s, "a guest of before is still there"
            time.sleep(0.05)
    finally:
        scene.close()


def test_a_job_that_began_after_the_backup_goes_on_from_its_saves_as_another_run(tmp_path: Path) -> None:
    scene = Scene.open(tmp_path / "campus", labs=("a",))
    try:
        campus = scene.campus
        before = scene.submit(steps=10_000)
        scene.until_beating(before)
        waits = scene.submit(steps=200)
        campus.stop_coordinator()
        shutil.copytree(campus.data_dir, tmp_path / "backup")
        campus.start_coordinator()
        scene.patiently(lambda: campus.client().stop(before))
        saved = scene.until(waits, "saved", lambda job: job["durable"] is not None)["durable"]["step"]
        campus.stop_coordinator()
        shutil.rmtree(campus.data_dir)
        shutil.copytree(tmp_path / "backup", campus.data_dir)
        scene.durable.clear()  # the copy knows of no save
        campus.start_coordinator()
        scene.patiently(lambda: campus.client().stop(before))
        job = scene.until_over(waits)
        assert job["phase"] == "succeeded", scene.story(waits)
        assert "epoch 1 has begun" in scene.story(waits)
        assert min(step for epoch, _, step in scene.beats(waits) if epoch > 1) >= saved
        scene.check_trail(waits)
    finally:
        scene.close()
