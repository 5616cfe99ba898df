"""Where guests' cgroups are made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpunion
from gpunion.adapters.sandbox import cgroups

PLACE = """
import os, sys
from gpunion.adapters.sandbox import cgroups
cgroups.enter(sys.argv[1])
print(cgroups.find_parent())
"""


@pytest.fixture
def unit() -> Iterator[Path]:
    """A service's cgroup with the agent's own below it, as systemd makes them."""
    parent = cgroups.find_parent()
    if not parent or os.geteuid() != 0:
        pytest.skip("no cgroup can be made here")
    unit = Path(parent, f"gpunion-test-{os.getpid()}.service")
    (unit / "agent").mkdir(parents=True)
    yield unit
    (unit / "agent").rmdir()
    unit.rmdir()


@pytest.mark.parametrize("below", ["agent", ""])
def test_guests_are_made_beside_an_agent_that_has_a_cgroup_of_its_own(unit: Path, below: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(gpunion.__file__).parents[1])}
    words = [sys.executable, "-S", "-c", PLACE, str(unit / below)]
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    assert said.strip() == str(unit)
