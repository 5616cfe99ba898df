"""The real thing, where there is one. Elsewhere it is skipped by name and never pretended."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpunion.adapters.nvml import find_gpus
from tests.gpu import run_figures_on_gpu, run_windows_on_gpu
from tests.gpu.run_on_gpu import show

pytestmark = [pytest.mark.requires("nvidia"), pytest.mark.timeout(600)]


def test_the_driver_is_heard_as_nvidia_smi_says_it() -> None:
    words = ["nvidia-smi", "--query-gpu=compute_cap,driver_version", "--format=csv,noheader"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    gpus = find_gpus().inventory()
    heard = [f"{gpu.compute_capability}, {gpu.driver}" for gpu in gpus]
    assert sorted(set(heard)) == sorted(set(said.split("\n")) - {""})
    # Of the highest CUDA nvidia-smi tells in its table alone.
    table = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=True, timeout=60).stdout
    highest = re.search(r"CUDA[^:|]*Version: *([0-9.]+)", table)
    assert highest is not None
    assert {gpu.cuda for gpu in gpus} == {highest[1]}


def test_a_guest_is_seen_yields_to_the_owner_and_leaves_the_gpu_when_killed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = show(tmp_path)
    assert all(found["verdicts"].values()), found


def test_a_guest_is_parked_while_the_owner_computes_and_goes_on_as_the_same_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = show(tmp_path, "park")
    assert all(found["verdicts"].values()), found


def test_an_urgent_job_has_the_card_of_a_training_that_goes_on_identically(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = show(tmp_path, "preempt")
    assert all(found["verdicts"].values()), found


def test_of_jobs_in_windows_steps_and_memory_are_learned_and_a_lack_of_memory_fails_none(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    found = run_windows_on_gpu.show(tmp_path)
    assert all(found["verdicts"].values()), found


def test_the_campus_is_told_what_the_driver_says_while_a_guest_works_and_nothing_of_its_owner(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    found = run_figures_on_gpu.show(tmp_path)
    assert all(found["verdicts"].values()), found
