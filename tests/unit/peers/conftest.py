"""What every test of peers begins with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.peers.alpha import Alpha


@pytest.fixture
def alpha(tmp_path: Path) -> Iterator[Alpha]:
    machine = Alpha(tmp_path)
    yield machine
    machine.server.close()
