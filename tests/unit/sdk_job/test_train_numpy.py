"""The demo's training job: interrupted at any steps and resumed, its weights are equal bit for bit."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.sdk.job import training

pytest.importorskip("numpy")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "train_numpy.py"
STEPS, SEED = 60, 7
VARIABLES = ("GPUNION_CHECKPOINT_DIR", "GPUNION_CONTROL_DIR", "GPUNION_RESUME")


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_numpy", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TRAIN: Any = example()


def uninterrupted(seed: int) -> str:
    model = TRAIN.Model(seed)
    for step in range(STEPS):
        model.step(step)
    return str(model.digest())


def one_run(folder: Path, resume: bool, interrupt_after: int | None) -> str | None:
    """One incarnation of the job in its own process's place; None when it saved itself and left."""
    os.environ.update(
        zip(VARIABLES, (str(folder / "checkpoint"), str(folder / "control"), str(int(resume))), strict=True)
    )
    model = TRAIN.Model(SEED)  # as a new process would: nothing but the files is carried over
    try:
        for step in training.Training(total_steps=STEPS, save=model.save, load=model.load).steps():
            model.step(step)
            if step == interrupt_after:
                request = {"id": f"c{step}", "deadline": 0, "reason": "test", "final": True}
                (folder / "control" / "request.json").write_text(json.dumps(request))
                os.kill(os.getpid(), signal.SIGUSR1)
    except SystemExit:
        (folder / "control" / "request.json").unlink()
        return None
    return str(model.digest())


@settings(max_examples=15, deadline=None)
@given(interruptions=st.sets(st.integers(min_value=0, max_value=STEPS - 2), max_size=5))
def test_interrupted_at_any_steps_the_weights_are_equal_bit_for_bit(interruptions: set[int]) -> None:
    before = {name: os.environ.get(name) for name in VARIABLES}
    handler = signal.getsignal(signal.SIGUSR1)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "checkpoint").mkdir()
            (folder / "control").mkdir()
            runs = [*sorted(interruptions), None]
            digests = [one_run(folder, number > 0, after) for number, after in enumerate(runs)]
    finally:
        signal.signal(signal.SIGUSR1, handler)
        for variable, value in before.items():
            os.environ.pop(variable, None)
            if value is not None:
                os.environ[variable] = value
    assert digests == [None] * len(interruptions) + [uninterrupted(SEED)]


def test_another_seed_gives_other_weights() -> None:
    assert uninterrupted(SEED) != uninterrupted(SEED + 1)


def test_it_learns() -> None:
    model = TRAIN.Model(SEED)
    losses = [model.step(step) for step in range(200)]
    assert losses[-1] < losses[0] / 2
