"""System tests run real processes: a coordinator, agents, guests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    opened = Scene.open(tmp_path / "campus")
    try:
        yield opened
    finally:
        opened.close()
