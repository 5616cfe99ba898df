"""What a keeper counts as a guest's memory and disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper.resources.appetite import OUT_OF_DISK, OUT_OF_MEMORY, Appetite
from gpunion.owner_kill.processes import process_table

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


# Its first thread ends, and another one goes on: to whoever looks at the process alone it is a zombie.
GOES_ON_WITHOUT_ITS_FIRST_THREAD = f"""
import ctypes, threading, sys
taken = bytearray(b"x" * (64 * {MIB}))
first = threading.current_thread()
def go_on():
    while open(f"/proc/self/task/{{first.native_id}}/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    print("alone", flush=True)
    sys.stdin.read()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def headless() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", GOES_ON_WITHOUT_ITS_FIRST_THREAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "alone\n"
        yield process.pid
        process.kill()


def passed(pids: list[int], folder: Path, *, memory_bytes: int = 0, disk_bytes: int = 0) -> str:
    appetite = Appetite(lambda: pids, [str(folder)], memory_bytes=memory_bytes, disk_bytes=disk_bytes)
    return appetite.passed(1000.0)


def test_pages_that_processes_share_count_once(family: list[int], tmp_path: Path) -> None:
    assert passed(family, tmp_path, memory_bytes=128 * MIB) == ""
    assert passed(family, tmp_path, memory_bytes=48 * MIB) == OUT_OF_MEMORY


def test_a_process_whose_first_thread_has_ended_is_seen_and_counted(headless: int, tmp_path: Path) -> None:
    assert headless in process_table()
    assert passed([headless], tmp_path, memory_bytes=128 * MIB) == ""
    assert passed([headless], tmp_path, memory_bytes=48 * MIB) == OUT_OF_MEMORY


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
