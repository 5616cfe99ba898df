"""Old cgroups overlook processes that are just being made; a guest is made to stand still all the same."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.containers.freezer import OLD_TREE, Freezer, freezer_of

TIMES = 150  # told once, most such rows had one that never stood still
LIMIT_S = 30.0
STARTS_PROGRAMS = "while :; do echo x >> counted; sleep 0.002; done"


@pytest.fixture
def old_cgroup() -> Iterator[Path]:
    place = Path(OLD_TREE) / f"gpunion-test-{secrets.token_hex(4)}"
    if not os.access(OLD_TREE, os.W_OK) or not Path(OLD_TREE, "cgroup.procs").exists():
        pytest.skip("old cgroups (version 1, with a freezer) are absent, or not ours to use")
    place.mkdir()
    yield place
    _until(lambda: not (place / "cgroup.procs").read_text())
    place.rmdir()


def test_a_shell_that_starts_programs_all_the_time_stands_still_every_time(
    old_cgroup: Path, tmp_path: Path
) -> None:
    words = f"echo $$ > {old_cgroup}/cgroup.procs; {STARTS_PROGRAMS}"
    shell = subprocess.Popen(["sh", "-c", words], cwd=tmp_path)
    try:
        _until(lambda: (tmp_path / "counted").exists())
        freezer = freezer_of(shell.pid)
        assert freezer is not None
        assert freezer.forgets
        for turn in range(TIMES):
            _stands_still(freezer, tmp_path / "counted", turn)
    finally:
        shell.kill()
        (old_cgroup / "freezer.state").write_text("THAWED")
        shell.wait()


def _stands_still(freezer: Freezer, counted: Path, turn: int) -> None:
    assert freezer.freeze(LIMIT_S), f"turn {turn}"
    before = counted.stat().st_size
    assert freezer.frozen()
    freezer.thaw()
    _until(lambda: counted.stat().st_size > before)
    time.sleep(0.003 + 0.0001 * (turn % 37))  # at another moment of what it does each time


def _until(true: Callable[[], bool]) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < until_s
        time.sleep(0.002)
