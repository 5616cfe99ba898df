"""Disks that are really full: the machine's own, and the one where saves are kept."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.nodes.node import DiskRoom
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB, MIB
from gpunion.files import read_json
from gpunion.owner_kill.guest import LIMITS_FILE
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from tests.integration.agent.campus import TestCampus, eventually
from tests.integration.agent.machine import Machine
from tests.integration.agent.small_disk import SmallDisk

pytestmark = [pytest.mark.requires("bwrap"), pytest.mark.requires("tmpfs")]

A1 = NodeId("a1")
# Answers each request in place, so that its own words need no room: what fails is what is done for it. It
# names no files, so all of its folder has to be copied aside. Its state may grow for its n-th save.
HEAVY = """
import json, os, time
from pathlib import Path

control, state = Path(os.environ["GPUNION_CONTROL_DIR"]), Path(os.environ["GPUNION_CHECKPOINT_DIR"], "state")
size, larger, grows_at = (int(os.environ[name]) for name in ("SIZE", "LARGER", "GROWS_AT"))
def write(size):
    with state.open("wb") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))

write(size)
saved = (control / "saved.json").open("w")
saved.write(" " * 4000)
saved.flush()
step, last = 0, None
while True:
    try:
        request = json.loads((control / "request.json").read_text())
    except (OSError, ValueError):
        request = {"id": last}
    if request["id"] != last:
        step, last = step + 1, request["id"]
        if step == grows_at:
            write(larger)
        saved.seek(0)
        saved.write(json.dumps({"id": last, "step": step, "progress": 0.5}).ljust(4000))
        saved.flush()
    time.sleep(0.02)
"""


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[SmallDisk]]:
    """Unmounted whatever becomes of the test, after all that runs on them has ended."""
    disks: list[SmallDisk] = []
    yield disks
    for disk in disks:
        disk.remove()


@pytest.fixture
async def machine(campus: TestCampus, tmp_path: Path, disks: list[SmallDisk]) -> AsyncIterator[Machine]:
    """Its state lies on the first of the disks, its vault on the second."""
    disks.append(SmallDisk(tmp_path / "own", 2 * GIB))
    disks.append(SmallDisk(tmp_path / "vault", 10 * MIB))
    machine = Machine(campus, disks[0].folder, "a1", vault=disks[1].folder / "vault", log=tmp_path / "log")
    await machine.join()
    machine.boot()
    yield machine
    machine.clear_up()


def heavy(campus: TestCampus, *, size_bytes: int, larger_bytes: int, grows_at: int) -> JobId:
    sizes = {"SIZE": str(size_bytes), "LARGER": str(larger_bytes), "GROWS_AT": str(grows_at)}
    return campus.submit("job-1", HEAVY, every_s=0.2, **sizes)


def troubles(campus: TestCampus) -> list[CheckpointTrouble]:
    found = campus.station.engine.state.checkpoints.values()
    return [checkpoint.trouble for checkpoint in found if checkpoint.trouble is not None]


def lease_until_s(machine: Machine) -> float:
    limits = read_json(str(machine.state_dir / "guests" / "job-1-e1" / LIMITS_FILE))
    assert limits is not None
    return float(str(limits["lease_until_s"]))


def what_is_safe(machine: Machine, campus: TestCampus, job: JobId, into: Path) -> int:
    """How many bytes of state the newest checkpoint has, of which nothing that was acknowledged is lost."""
    durable = campus.job(job).durable
    vault = DirectoryVault(machine.vault)
    newest = vault.latest(job)
    assert durable is not None
    assert newest is not None
    assert newest.step >= durable.step
    restore_directory(vault, newest, into)
    return (into / "checkpoint" / "state").stat().st_size


async def test_full_disks_end_nobody_lose_nothing_acknowledged_and_are_forgotten_once_there_is_room(
    campus: TestCampus, machine: Machine, disks: list[SmallDisk], tmp_path: Path
) -> None:
    """One machine for both: most of the time goes into starting it."""
    job = heavy(campus, size_bytes=2 * MIB, larger_bytes=16 * MIB, grows_at=2)
    await the_vault_fills_up_in_the_middle_of_a_save(campus, machine, disks[1], job, tmp_path / "restored")
    await the_machine_s_own_disk_fills_up(campus, machine, disks[0], job, tmp_path / "restored")
    assert machine.living_guests() == ["job-1-e1"]
    assert [run.epoch for run in campus.runs(job)] == [1], campus.story


async def the_vault_fills_up_in_the_middle_of_a_save(
    campus: TestCampus, machine: Machine, disk: SmallDisk, job: JobId, restored: Path
) -> None:
    """The larger state has several blocks, and there is room for some of them."""
    await eventually(lambda: CheckpointTrouble.VAULT_FULL in troubles(campus), "a save finds no room")
    assert campus.step(job) == 1, campus.story
    assert any("there is no room where its saves are kept" in line for line in campus.story)
    assert what_is_safe(machine, campus, job, restored) == 2 * MIB
    disk.size_bytes = 64 * MIB
    disk.make_room()
    await eventually(lambda: campus.step(job) > 1, "the larger state is durable")
    assert what_is_safe(machine, campus, job, restored) == 16 * MIB
    assert campus.station.engine.state.nodes[A1].facts.disk is DiskRoom.FINE  # it is not the machine's own


async def the_machine_s_own_disk_fills_up(
    campus: TestCampus, machine: Machine, disk: SmallDisk, job: JobId, restored: Path
) -> None:
    nodes, reserve = campus.station.engine.state.nodes, machine.state_dir / "agent" / "reserve"
    disk.fill()
    await eventually(lambda: CheckpointTrouble.DISK_FULL in troubles(campus), "a save finds no room")
    # The agent's memory has the room of a reserve that was given up; when that is taken too it has none.
    await eventually(lambda: not reserve.exists(), "the agent gives up its reserve")

    def nothing_can_be_written() -> bool:
        disk.fill()  # again: what was set aside of a save that failed is removed, and makes room once more
        return bool(machine.status()["disk_trouble"])

    await eventually(nothing_can_be_written, "the agent's memory cannot be written")
    await eventually(lambda: nodes[A1].facts.disk is DiskRoom.FULL, "the campus is told")
    assert "is full" in machine.status()["disk"]["trouble"]
    assert any("the disk of a1 is full" in line for line in campus.story)
    other = campus.submit("job-2", HEAVY)
    [verdict] = campus.station.engine.explain(time.monotonic(), other)
    assert verdict.refusal is not None
    assert verdict.refusal.why is Why.DISK_SHORT_THERE
    campus.stop_job(other)
    before_s, step = lease_until_s(machine), campus.step(job)
    await eventually(lambda: lease_until_s(machine) > before_s, "the guest's lease is renewed")
    assert what_is_safe(machine, campus, job, restored) == 16 * MIB
    disk.make_room()
    await eventually(lambda: campus.step(job) > step, "it is saved again")
    await eventually(lambda: nodes[A1].facts.disk is DiskRoom.FINE, "the campus is told that there is room")
    await eventually(reserve.exists, "the reserve is there again")
    assert machine.status()["disk_trouble"] == ""
