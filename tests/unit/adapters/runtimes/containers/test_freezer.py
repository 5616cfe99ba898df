"""How long a container's processes are given to stand still, with a cgroup that only seems to be one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.containers.freezer import Freezer


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowFreezer(Freezer):
    """Whose processes wait for a disk: they stand still once they have been told so for long enough."""

    takes_s: float
    told_at_s: list[float] = field(default_factory=list)

    def frozen(self) -> bool:
        if Path(self.write).read_text() != self.freeze_word:
            return False
        if not self.told_at_s:
            self.told_at_s.append(time.monotonic())
        return time.monotonic() - self.told_at_s[0] >= self.takes_s

    def thaw(self) -> None:
        Path(self.write).write_text(self.thaw_word)
        self.told_at_s.clear()


def a_freezer(folder: Path, *, takes_s: float, forgets: bool) -> SlowFreezer:
    state = str(folder / "freezer.state")
    return SlowFreezer(
        write=state,
        read=state,
        freeze_word="FROZEN",
        thaw_word="THAWED",
        frozen_line="FROZEN",
        takes_s=takes_s,
        forgets=forgets,
    )


@pytest.mark.parametrize("forgets", [True, False])
def test_who_waits_for_a_disk_is_waited_for(tmp_path: Path, forgets: bool) -> None:
    """Also where it is begun again now and then: each time it has longer."""
    freezer = a_freezer(tmp_path, takes_s=0.3, forgets=forgets)
    assert freezer.freeze(60.0)
    assert Path(freezer.write).read_text() == "FROZEN"


@pytest.mark.parametrize("forgets", [True, False])
def test_who_does_not_stand_still_in_time_goes_on(tmp_path: Path, forgets: bool) -> None:
    freezer = a_freezer(tmp_path, takes_s=3600.0, forgets=forgets)
    assert not freezer.freeze(0.2)
    assert Path(freezer.write).read_text() == "THAWED"


def test_who_must_not_go_on_is_left_to_stand_still_when_it_can(tmp_path: Path) -> None:
    freezer = a_freezer(tmp_path, takes_s=3600.0, forgets=True)
    freezer.hold(0.2)
    assert Path(freezer.write).read_text() == "FROZEN"
