"""A guest that wants out. Every attempt has to be refused, on every runtime; the end prints how many were."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal

import pytest

from gpunion.owner_kill import kill_all, lift_kill
from gpunion.owner_kill.guest import read_keeper
from gpunion.ports.runtime import ExitReason
from tests.escape.attempts import ATTEMPTS
from tests.escape.conftest import MEMORY_BYTES, Lab
from tests.real_machine import eventually, now_s, processes_with

# Two forks, a session of its own, every signal ignored, and a name to be found by.
HIDES = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for signum in range(1, 32):
            if signum not in (9, 19): signal.signal(signum, signal.SIG_IGN)
        os.closerange(0, 3)
        open(os.environ["GPUNION_OUTPUT_DIR"] + "/hidden", "w").close()
        time.sleep(100000)
    os._exit(0)
os.wait()
for signum in range(1, 32):
    if signum not in (9, 17, 19): signal.signal(signum, signal.SIG_IGN)
time.sleep(100000)
"""
# Has as many processes as it may have and wants more; tells so once it has been refused.
FORKS_FOR_EVER = """
import os, time
while True:
    try:
        if os.fork() == 0: time.sleep(100000)
    except OSError:
        open(os.environ["GPUNION_OUTPUT_DIR"] + "/refused", "w").close()
        time.sleep(0.05)
"""
# Twice what it may have, and kept: more than that is never taken from the host. In turn page by page in one
# process, in several that share nothing, in a file system in memory, and in a file that has no name.
FILLS_MEMORY = {
    "pages": f"""
import time
taken = []
for _ in range(2 * {MEMORY_BYTES} // 2**20):
    taken.append(bytearray(b"x" * 2**20))
time.sleep(100000)
""",
    "children": f"""
import os, time
for _ in range(8):
    if os.fork() == 0:
        taken = bytearray(b"x" * ({MEMORY_BYTES} // 4))
        time.sleep(100000)
os.wait()
os.kill(os.getpid(), 9)  # where the kernel ends one of them only, that one's end is the guest's
""",
    "shared memory": f"""
import os, time
with open("/dev/shm/full", "wb") as file:
    for _ in range(2 * {MEMORY_BYTES} // 2**20):
        try:
            file.write(b"x" * 2**20)
        except OSError:
            break  # the first refusal; with what the program itself has it is more than it may have
time.sleep(100000)
""",
    "a nameless file": f"""
import os, time
file = os.memfd_create("hidden")
for _ in range(2 * {MEMORY_BYTES} // 2**20):
    os.write(file, b"x" * 2**20)
time.sleep(100000)
""",
}
# More than it may have, in a file that is deleted as soon as it is open, so that no directory shows it.
FILLS_DISK = {
    "files": """
import time
for number in range(64):
    with open(f"part-{number}", "wb") as file:
        file.write(b"x" * 2**20)
time.sleep(100000)
""",
    "a deleted file": """
import os, time
file = open("hidden", "wb")
os.unlink("hidden")
for _ in range(64):
    file.write(b"x" * 2**20)
    file.flush()
time.sleep(100000)
""",
}


@pytest.mark.parametrize("attempt", sorted(ATTEMPTS))
def test_from_inside_a_guest_cannot(lab: Lab, attempt: str) -> None:
    assert lab.results[attempt].startswith("refused: "), lab.results[attempt]


@pytest.mark.skipif(os.geteuid() != 0, reason="only a root agent's guests are users of their own")
def test_a_guest_that_forks_without_end_cannot_keep_another_from_running(lab: Lab) -> None:
    bomb = lab.start("bomb", "python", "-c", FORKS_FOR_EVER)
    try:
        eventually((bomb / "output" / "refused").exists)
        root = lab.start("beside-the-bomb", "sh", "-c", "for i in 1 2 3; do python -c pass || exit 1; done")
        assert lab.ended("beside-the-bomb") == (ExitReason.EXITED, 0), (root / "log.txt").read_text()
        status = asyncio.run(lab.runtime.status("bomb"))
        assert status is not None
        assert status.alive
        if lab.runtime_name != "podman":  # whose guests share a mapping, with a count for each container
            assert (bomb / "scratch").stat().st_uid != (root / "scratch").stat().st_uid
    finally:
        asyncio.run(lab.runtime.kill("bomb", ExitReason.STOPPED))


@pytest.mark.parametrize("way", sorted(FILLS_MEMORY))
def test_a_guest_cannot_take_more_memory_than_it_asked_for(lab: Lab, way: str) -> None:
    run_id = f"hungry-{way.replace(' ', '-')}"
    root = lab.start(run_id, "python", "-c", FILLS_MEMORY[way])
    assert lab.ended(run_id) == (ExitReason.OUT_OF_MEMORY, 137), (root / "log.txt").read_text()


@pytest.mark.parametrize("way", sorted(FILLS_DISK))
def test_a_guest_cannot_fill_the_disk(lab: Lab, way: str) -> None:
    run_id = f"greedy-{way.replace(' ', '-')}"
    root = lab.start(run_id, "python", "-c", FILLS_DISK[way])
    assert lab.ended(run_id) == (ExitReason.OUT_OF_DISK, 137), (root / "log.txt").read_text()


def test_a_guest_that_hides_cannot_outlive_a_kill(lab: Lab) -> None:
    token = hide(lab, "hider-killed")
    asyncio.run(lab.runtime.kill("hider-killed", ExitReason.STOPPED))
    assert processes_with(token) == []


def test_a_guest_that_hides_cannot_outlive_the_owners_deadline(lab: Lab) -> None:
    token = hide(lab, "hider-deadline")
    asyncio.run(lab.runtime.limit("hider-deadline", None, now_s()))
    assert lab.ended("hider-deadline") == (ExitReason.DEADLINE, 137)
    assert processes_with(token) == []


def test_a_guest_that_hides_cannot_outlive_the_owners_kill(lab: Lab) -> None:
    token = hide(lab, "hider-owner")
    receipt = kill_all(lab.state_dir)
    lift_kill(lab.state_dir)
    assert receipt.complete
    assert processes_with(token) == []
    assert lab.ended("hider-owner") == (ExitReason.KILLED_BY_OWNER, 137)


def test_a_guest_that_hides_cannot_outlive_its_keeper(lab: Lab) -> None:
    token = hide(lab, "hider-keeper")
    keeper = read_keeper(str(lab.state_dir / "guests" / "hider-keeper"))
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    eventually(lambda: processes_with(token) == [])


def hide(lab: Lab, run_id: str) -> str:
    token = f"hidden-{secrets.token_hex(8)}"
    root = lab.start(run_id, "python", "-c", HIDES, token)
    eventually((root / "output" / "hidden").exists)
    assert len(processes_with(token)) >= 2
    return token
