"""A program that saves every 250 steps, copied by a command: what is redone is what its log shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from tests.system.scene import PATIENT, Scene

pytestmark = [pytest.mark.xdist_group("saved-from-outside"), pytest.mark.timeout(300)]

EVERY = 250
COUNTS = f"""
import json, os, time
control, kept = os.environ["GPUNION_CONTROL_DIR"], os.environ["GPUNION_CHECKPOINT_DIR"]
n = int(open(kept + "/state").read()) if os.environ["GPUNION_RESUME"] == "1" else 0
print("begins at", n, flush=True)
while n < 100000:
    time.sleep(0.01)
    n += 1
    with open(control + "/mine", "w") as file:
        json.dump({{"step": n}}, file)
    os.rename(control + "/mine", control + "/progress.json")
    print("step", n, flush=True)
    if n % {EVERY} == 0:
        with open("new", "w") as file:
            file.write(str(n))
        os.rename("new", "state")
        with open("new", "w") as file:
            json.dump({{"step": n}}, file)
        os.rename("new", "progress.json")
"""
COPIES = ["sh", "-c", "cp state progress.json $GPUNION_CHECKPOINT_DIR"]


def test_the_steps_told_as_redone_are_those_its_own_log_shows(tmp_path: Path) -> None:
    scene = Scene.open(tmp_path / "campus", timing=PATIENT)
    try:
        digest = scene.campus.client().put_tree({"count.py": COUNTS.encode()})
        job = scene.submit(
            command=["python", "count.py"],
            bundle=digest,
            checkpoint={"command": COPIES, "min_interval_s": 3600.0, "max_interval_s": 3600.0},
        )
        scene.until(job, "past its first save", lambda row: (row["live"] or {}).get("step", 0) > EVERY)
        owner_client.reclaim(scene.campus.state_dir("a"), 60.0)
        scene.until(job, "on b", lambda row: row["node_id"] == "b" and row["phase"] == "running")
        moved = scene.patiently(lambda: scene.campus.client().job(job))["migrations"][0]
        log = scene.until_told(job, "begins at", times=2)
    finally:
        scene.close()
    before, after = re.split(r"begins at (?=[1-9])", log)
    resumed = int(after.split()[0])
    reached = int(re.findall(r"step (\d+)\n", before)[-1])
    assert resumed % EVERY == 0
    assert resumed > 0
    # It ended between telling a step and printing it, at most.
    assert resumed + moved["steps_redone"] - reached in (0, 1), (moved, log[-500:])
