"""What a keeper counts as a guest's memory and disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.adapters.sandbox.appetite import OUT_OF_DISK, OUT_OF_MEMORY, Appetite

MIB = 1024**2
# One process takes memory and then becomes four, as a data loader does.
SHARES = f"""
import os, sys
taken = bytearray(b"x" * (64 * {MIB}))
pids = [os.getpid()]
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        sys.stdin.read()
        os._exit(0)
    pids.append(pid)
print(*pids, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def family() -> Iterator[list[int]]:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", SHARES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        yield [int(word) for word in parent.stdout.readline().split()]
        assert parent.stdin is not None
        parent.stdin.close()


def passed(pids: list[int], folder: Path, *, memory_bytes: int = 0, disk_bytes: int = 0) -> str:
    appetite = Appetite(lambda: pids, [str(folder)], memory_bytes=memory_bytes, disk_bytes=disk_bytes)
    return appetite.passed(1000.0)


def test_pages_that_processes_share_count_once(family: list[int], tmp_path: Path) -> None:
    assert passed(family, tmp_path, memory_bytes=128 * MIB) == ""
    assert passed(family, tmp_path, memory_bytes=48 * MIB) == OUT_OF_MEMORY


def test_a_sparse_file_and_a_second_name_take_no_room_and_a_hidden_folder_is_not_believed(
    tmp_path: Path,
) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(64 * MIB)
    (tmp_path / "real").write_bytes(b"x" * MIB)
    for number in range(4):
        (tmp_path / f"name-{number}").hardlink_to(tmp_path / "real")
    assert passed([], tmp_path, disk_bytes=2 * MIB) == ""
    assert passed([], tmp_path, disk_bytes=MIB // 2) == OUT_OF_DISK
    if os.geteuid() != 0:
        (tmp_path / "hidden").mkdir(mode=0)
        assert passed([], tmp_path, disk_bytes=64 * MIB) == OUT_OF_DISK
