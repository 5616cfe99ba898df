"""What most tests of an agent begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.agent.fakes import FakeWorld


@pytest.fixture
def fake(tmp_path: Path) -> FakeWorld:
    return FakeWorld(tmp_path)
