"""What a guest's program writes for its agent: whatever it is, reading it raises nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper import control_files
from gpunion.agent.program.messages import (
    PROGRESS_FILE,
    SAVED_FILE,
    Reached,
    read_reached,
    read_saved,
)
from gpunion.limits import STEP_MAX
from gpunion.ports.runtime import GuestPaths

# JSON has no largest number: Python reads this one as an integer that no float can be.
BEYOND_FLOATS = 10**400


def reached(root: Path, **said: object) -> Reached:
    (root / PROGRESS_FILE).write_text(json.dumps(said))
    places = dict.fromkeys(("checkpoint_dir", "output_dir", "scratch_dir", "log_file"), root)
    return read_reached(control_files, GuestPaths(root=root, control_dir=root, **places))


def test_its_progress_is_taken_over(tmp_path: Path) -> None:
    assert reached(tmp_path, step=7, progress=0.25) == Reached(step=7, progress=0.25)


@pytest.mark.parametrize("progress", [BEYOND_FLOATS, -BEYOND_FLOATS, float("nan"), True, "half", None, [0.5]])
def test_a_share_that_is_none_counts_as_none(tmp_path: Path, progress: object) -> None:
    assert reached(tmp_path, step=7, progress=progress) == Reached(step=7, progress=0.0)


def test_steps_beyond_all_bounds_are_the_most_there_can_be(tmp_path: Path) -> None:
    assert reached(tmp_path, step=BEYOND_FLOATS, progress=1).step == STEP_MAX


@pytest.mark.parametrize("stall_s", [BEYOND_FLOATS, -BEYOND_FLOATS, float("inf"), True, "long"])
def test_a_stall_that_cannot_be_is_not_known(tmp_path: Path, stall_s: object) -> None:
    saved = {"id": "c1", "step": 3, "progress": BEYOND_FLOATS, "stall_s": stall_s}
    (tmp_path / SAVED_FILE).write_text(json.dumps(saved))
    found = read_saved(control_files, tmp_path)
    assert found is not None
    assert (found.id, found.step, found.progress, found.stall_s) == ("c1", 3, 0.0, None)
