"""Where guests' cgroups are made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpunion
from gpunion.adapters.runtimes.keeper import cgroups
from gpunion.owner_kill.processes import remove_cgroup

PLACE = """
import os, sys
from gpunion.adapters.runtimes.keeper import cgroups
from gpunion.owner_kill.processes import remove_cgroup
cgroups.enter(sys.argv[1])
print(cgroups.find_parent())
print(cgroups._own_path())
"""


@pytest.fixture
def unit() -> Iterator[Path]:
    """A service's cgroup, as systemd makes them."""
    parent = cgroups.find_parent()
    if not parent or os.geteuid() != 0:
        pytest.skip("no cgroup can be made here")
    unit = Path(parent, f"gpunion-test-{os.getpid()}.service")
    unit.mkdir()
    yield unit
    remove_cgroup(str(unit))


def found_from(place: Path) -> tuple[str, str]:
    """Where an agent in that cgroup makes its guests', and where it is itself afterwards."""
    environment = {**os.environ, "PYTHONPATH": str(Path(gpunion.__file__).parents[1])}
    words = [sys.executable, "-S", "-c", PLACE, str(place)]
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    parent, own = said.splitlines()
    return parent, own


def has_controllers() -> bool:
    return bool(cgroups.controllers(cgroups.find_parent()))


def test_guests_are_made_beside_an_agent_that_has_a_cgroup_of_its_own(unit: Path) -> None:
    (unit / "agent").mkdir()
    assert found_from(unit / "agent")[0] == str(unit)


def test_guests_of_an_agent_that_shares_its_cgroup_are_made_where_they_can_be_limited(unit: Path) -> None:
    parent, own = found_from(unit)
    assert own.endswith(unit.name)
    # Where the unified tree has controllers that is a place at the top, which is root's to make.
    assert parent == (os.path.join(top_of(unit), cgroups.TOP_GROUP) if has_controllers() else str(unit))


def top_of(unit: Path) -> str:
    return next(mount for mount in reversed(cgroups.MOUNTS) if str(unit).startswith(f"{mount}/"))


def test_guests_of_root_are_limited_wherever_the_kernel_can(tmp_path: Path) -> None:
    """The agent of this test was started by hand, in whatever cgroup its shell is."""
    if os.geteuid() != 0 or not has_controllers():
        pytest.skip("there are no controllers in the unified tree, or this is not root")
    assert cgroups.controllers(cgroups.find_parent()) == set(cgroups.WANTED_CONTROLLERS)
