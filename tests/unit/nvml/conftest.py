"""A driver that a test can make say anything, hang, or lose a card."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpunion.adapters.nvml.child import STAND_IN_VARIABLE
from tests.unit.nvml.cards import STATE_VARIABLE, FakeDriver

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    path = tmp_path / "nvml.json"
    folder = str(Path(__file__).parent)
    monkeypatch.setenv(STATE_VARIABLE, str(path))
    monkeypatch.setenv(STAND_IN_VARIABLE, "fake_nvml")
    paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    return FakeDriver(path)
