"""A program that saves something it cannot read itself goes on from the save before, with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.scene import PATIENT, Scene

pytestmark = [pytest.mark.xdist_group("garbage-saved"), pytest.mark.timeout(300)]

# Each run saves once, by ending with status 85: the first well, the second badly.
PROGRAM = """
import os, pathlib, sys
state = pathlib.Path(os.environ["GPUNION_CHECKPOINT_DIR"]) / "state"
if os.environ["GPUNION_RESUME"] == "0":
    state.write_text("100")
    sys.exit(85)
read = int(state.read_text())
if os.environ["GPUNION_RUN_EPOCH"] == "2":
    state.write_text("garbage")
    sys.exit(85)
(pathlib.Path(os.environ["GPUNION_OUTPUT_DIR"]) / "read").write_text(f"{read}")
"""


def test_a_program_that_saved_garbage_goes_on_from_the_save_before_and_why_says_so(tmp_path: Path) -> None:
    scene = Scene.open(tmp_path, labs=("a",), timing=PATIENT)
    try:
        digest = scene.campus.client().put_tree({"train.py": PROGRAM.encode()})
        job_id = scene.submit(command=["python", "train.py"], bundle=digest)
        job = scene.until_over(job_id)
        story = scene.story(job_id)
        assert (job["phase"], job["epoch"]) == ("succeeded", 4), story
        assert "could not go on from what it had saved at step 0 (exit code 1; see its log)" in story
        scene.check_audit()
    finally:
        scene.close()
