"""The play of tests/gpu with a driver that is made up: real processes, agent, keepers and coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu import park_scene, preempt_scene, run_figures_on_gpu, run_speed_on_gpu, run_windows_on_gpu
from tests.gpu.rehearsal import rehearsed
from tests.gpu.run_on_gpu import verdicts
from tests.gpu.scene import Scene


def test_a_guest_is_seen_yields_to_the_owner_and_leaves_the_gpu_when_killed(tmp_path: Path) -> None:
    with rehearsed(tmp_path, tmp_path / "campus") as props:
        found = Scene(root=tmp_path / "campus", props=props).play()
    judged = verdicts(found)
    del judged["auto_yield_within_2_s"]  # how fast is for a machine that is not busy with other tests
    del judged["memory_free_within_1_s_of_kill"]
    assert all(judged.values()), found
    assert found["yield"]["cause"] == "own_work"
    assert any("compute" in sentence for sentence in found["yield"]["told_to_the_job"]), found["yield"]


def test_a_guest_is_parked_while_the_owner_computes_and_goes_on_as_the_same_run(tmp_path: Path) -> None:
    with rehearsed(tmp_path, tmp_path / "campus") as props:
        found = park_scene.ParkScene(root=tmp_path / "campus", props=props).play()
    assert all(park_scene.verdicts(found).values()), found


def test_an_urgent_job_has_the_card_of_a_training_that_goes_on_identically(tmp_path: Path) -> None:
    with rehearsed(tmp_path, tmp_path / "campus") as props:
        found = preempt_scene.RehearsedPreemptScene(root=tmp_path / "campus", props=props).play()
    judged = preempt_scene.verdicts(found)
    del judged["first_cuda_operation_within_the_park_and_3_s"]  # as above
    assert all(judged.values()), found


@pytest.mark.requires("bwrap")
def test_a_program_runs_bare_and_in_the_sandbox_by_turns_and_both_tell_their_speed(tmp_path: Path) -> None:
    found = run_speed_on_gpu.show(tmp_path, ["sandbox"], 1, rehearse=True)
    judged = run_speed_on_gpu.verdicts(found)
    del judged["sandbox_sums"]  # how fast is for a machine that is not busy with other tests
    assert all(judged.values()), found
    assert found["ratios"]["sandbox"]["sums"]["of_medians"] > 0


def test_of_jobs_in_windows_steps_and_memory_are_learned_and_a_lack_of_memory_fails_none(
    tmp_path: Path,
) -> None:
    found = run_windows_on_gpu.rehearse(tmp_path)
    judged = found["verdicts"]
    del judged["the_program_ends_its_piece_by_itself"]  # its agent asks it first where it stands for a second
    del judged["step_times_arrive_in_the_profile"]  # measured by two clocks on a machine that is not busy
    assert all(judged.values()), found
    assert found["training"]["profile_after_one_piece"]["steps"] > 0, found


def test_the_campus_is_told_of_a_card_while_a_guest_has_it_and_nothing_of_its_owner(tmp_path: Path) -> None:
    found = run_figures_on_gpu.rehearse(tmp_path)
    assert all(found["verdicts"].values()), found
