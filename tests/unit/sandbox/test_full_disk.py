"""What keepers and agents tell each other by files goes on while the disk is full."""

from __future__ import annotations

import errno
import json
import time
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper.limits import DEADLINE, LEASE_ENDED, Limits, leave_limits
from gpunion.files import read_json, write_json_over


def no_room(path: str, value: dict[str, object]) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_lease_is_renewed_on_a_full_disk(tmp_path: Path) -> None:
    path, now_s = str(tmp_path / "limits.json"), time.clock_gettime(time.CLOCK_BOOTTIME)
    leave_limits(path, now_s + 10.123456789, now_s + 1000.0)
    limits = Limits(path)
    assert limits.passed(now_s + 11) == LEASE_ENDED
    leave_limits(path, now_s + 20, None, no_room)
    assert limits.passed(now_s + 11) == ""
    assert limits.passed(now_s + 1001) == LEASE_ENDED
    leave_limits(path, now_s + 30, now_s + 5, no_room)
    assert limits.passed(now_s + 6) == DEADLINE


def test_a_mixture_of_two_limits_is_no_limit(tmp_path: Path) -> None:
    path, now_s = tmp_path / "limits.json", time.clock_gettime(time.CLOCK_BOOTTIME)
    leave_limits(str(path), now_s + 10, None)
    limits = Limits(str(path))
    assert limits.passed(now_s) == ""
    torn = json.loads(path.read_text())
    path.write_text(json.dumps({**torn, "lease_until_s": now_s + 9000}))
    assert limits.passed(now_s + 11) == LEASE_ENDED


def test_how_a_guest_ended_is_told_on_a_full_disk_in_the_room_of_what_nobody_needs(tmp_path: Path) -> None:
    spare, target = tmp_path / "limits.json", tmp_path / "exit.json"
    spare.write_text("x" * 500)
    write_json_over(str(target), {"exit_code": 0}, str(spare), no_room)
    assert read_json(str(target)) == {"exit_code": 0}
    assert not spare.exists()
    with pytest.raises(OSError, match="No space"):
        write_json_over(str(target), {"exit_code": 1}, str(spare), no_room)
    assert read_json(str(target)) == {"exit_code": 0}
