"""What is seen on the GPUs, and what follows: the owner's own work, guests' processes, failed cards."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.agent.loop import AgentLoop
from gpunion.agent.machine.gpu_status import gpu_rows
from gpunion.agent.machine.gpu_users import Attribution, GpuUser, process_name
from gpunion.agent.machine.gpu_verdicts import Quarantine, Word, Yielding
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.agent.machine.watch_settings import USUALLY_IGNORED, WatchSettings
from gpunion.agent.settings import SettingsTrouble, settings_of
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause, WithheldGpu
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed
from gpunion.domain.resources import Gpu
from gpunion.files import write_json
from gpunion.owner_kill.guest import KEEPER_FILE
from gpunion.owner_kill.processes import boot_id, start_ticks
from gpunion.ports.gpus import GpuDevice, GpuProcess, GpuSight, Look
from tests.unit.agent.fakes import ManualClock, ScriptedDisk, until
from tests.unit.agent.values import a_station, some_facts

OWN_WORK, SICK = HoldCause.OWN_WORK, HoldCause.SICK


def own(pid: int = 4711) -> GpuUser:
    return GpuUser(pid=pid, name="python", memory_bytes=None, run_id=None)


def held(cause: HoldCause = OWN_WORK, phase: GpuPhase = GpuPhase.RECLAIMED) -> list[WithheldGpu]:
    return [WithheldGpu(index=0, phase=phase, cause=cause)]


# --- own work ---------------------------------------------------------------------------------------


def yielding() -> Yielding:
    return Yielding(notice_s=10, quiet_s=60)


def test_own_work_takes_that_gpu_back_and_the_campus_does_not_hear_which() -> None:
    assert yielding().look(0.0, {0: (), 1: (own(),)}, []) == [
        OwnerReclaimed(notice_s=10, gpus=(1,), cause=OWN_WORK)
    ]


def test_a_gpu_that_is_the_owners_anyway_is_not_taken_twice() -> None:
    for gpu in (held(), held(HoldCause.OWNER), held(SICK), held(phase=GpuPhase.RECLAIMING)):
        assert yielding().look(0.0, {0: (own(),)}, gpu) == []


def test_a_paused_gpu_is_taken_back_from_the_guest_that_stayed() -> None:
    (word,) = yielding().look(0.0, {0: (own(),)}, held(HoldCause.OWNER, GpuPhase.PAUSED))
    assert isinstance(word, OwnerReclaimed)


def test_sharing_resumes_only_after_the_work_has_been_gone_for_a_while() -> None:
    watch = yielding()
    watch.look(0.0, {0: (own(),)}, [])
    kept = OwnerReclaimed(notice_s=10, gpus=(0,), cause=OWN_WORK, until_s=70.0)
    assert watch.look(10.0, {0: ()}, held()) == [kept]
    assert watch.look(50.0, {0: (own(),)}, held()) == [replace(kept, until_s=None)]  # between two scripts
    assert watch.look(60.0, {0: ()}, held()) == [replace(kept, until_s=120.0)]
    assert watch.look(119.0, {0: ()}, held()) == []
    assert watch.look(120.0, {0: ()}, held()) == [OwnerResumed(gpus=(0,), cause=OWN_WORK)]
    assert watch.look(500.0, {0: ()}, held(HoldCause.OWNER)) == []


def test_an_owner_who_lends_a_gpu_beside_their_own_work_is_believed() -> None:
    watch = yielding()
    watch.look(0.0, {0: (own(),)}, [])
    watch.look(1.0, {0: (own(),)}, held())
    assert watch.look(2.0, {0: (own(),)}, []) == []  # they said resume
    assert watch.look(3.0, {0: (own(),)}, []) == []
    (word,) = watch.look(4.0, {0: (own(), own(5))}, [])
    assert word.gpus == (0,)


# --- failed cards -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sight", "detail"),
    [
        (GpuSight(index=0, xids=(31, 79)), "Xid 79: it fell off the bus"),
        (GpuSight(index=0, ecc_uncorrected=2), "2 uncorrectable memory errors"),
    ],
)
def test_a_card_that_failed_is_withheld_at_once_and_once(sight: GpuSight, detail: str) -> None:
    quarantine = Quarantine()
    word = OwnerReclaimed(notice_s=0.0, gpus=(0,), cause=SICK, detail=detail)
    assert quarantine.look([sight], []) == [word]
    assert quarantine.look([sight], held(SICK)) == []
    assert quarantine.look([sight], []) == []  # the owner says it is well
    worse = replace(sight, xids=(*sight.xids, 48))
    assert len(quarantine.look([worse], [])) == 1


def test_what_a_program_did_wrong_does_not_condemn_its_card() -> None:
    sights = [GpuSight(index=0, xids=(13, 31, 43, 45)), GpuSight(index=1, ecc_uncorrected=0)]
    assert Quarantine().look(sights, []) == []


def test_a_card_that_is_missing_is_looked_for_twice() -> None:
    quarantine = Quarantine()
    gone = GpuSight(index=0, gone="it does not answer any more")
    assert quarantine.look([gone], []) == []
    assert quarantine.look([GpuSight(index=0)], []) == []
    assert quarantine.look([gone], []) == []
    (word,) = quarantine.look([gone], [])
    assert isinstance(word, OwnerReclaimed)
    assert word.detail == "it does not answer any more"


# --- whose process is it ----------------------------------------------------------------------------


def a_keeper_of(state_dir: Path, run: str, pid: int) -> None:
    root = state_dir / "guests" / run
    root.mkdir(parents=True)
    record: dict[str, object] = {
        "pid": pid,
        "start_ticks": start_ticks(pid) or 0,
        "boot_id": boot_id(),
        "cgroup": "",
        "mark": "",
    }
    write_json(str(root / KEEPER_FILE), record)


def test_a_keepers_descendants_are_the_guests_and_stay_so_when_its_records_are_gone(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        a_keeper_of(tmp_path, "job-e1", os.getpid())
        attribution = Attribution(tmp_path, ())
        (user,) = attribution.users([GpuProcess(pid=child.pid, memory_bytes=5)])
        assert (user.run_id, user.memory_bytes, user.own_work) == ("job-e1", 5, False)
        (tmp_path / "guests" / "job-e1" / KEEPER_FILE).unlink()
        assert attribution.users([GpuProcess(pid=child.pid)])[0].run_id == "job-e1"
        (stranger,) = Attribution(tmp_path, ()).users([GpuProcess(pid=child.pid)])
        assert stranger.own_work
    finally:
        child.communicate(b"\n")
    assert attribution.users([GpuProcess(pid=child.pid)]) == ()


def test_a_display_server_is_not_work(tmp_path: Path) -> None:
    name = process_name(os.getpid())
    (user,) = Attribution(tmp_path, (f"{name}-with-a-long-tail"[:15],)).users([GpuProcess(pid=os.getpid())])
    assert user.ignored is (len(name) >= 15)
    (user,) = Attribution(tmp_path, (name,)).users([GpuProcess(pid=os.getpid())])
    assert (user.ignored, user.own_work) == (True, False)
    assert process_name(2**30) == "?"


# --- the watch --------------------------------------------------------------------------------------


class ScriptedGpus:
    """Shows what a test puts into `next`."""

    def __init__(self) -> None:
        self.next = Look(at_s=0.0)
        self.watched = True
        self.closed = 0

    def describe(self) -> str:
        return "scripted"

    def inventory(self) -> tuple[Gpu, ...]:
        return some_facts().capacity.gpus

    def device(self, index: int) -> GpuDevice | None:
        return None

    async def look(self) -> Look:
        return self.next

    async def close(self) -> None:
        self.closed += 1


class Stage:
    def __init__(self, root: Path, **settings: object) -> None:
        self.gpus = ScriptedGpus()
        self.clock = ManualClock()
        self.found: list[tuple[Gpu, ...]] = []
        self.forced = 0
        self.loop = AgentLoop(
            station=a_station(),
            disk=ScriptedDisk(),
            clock=self.clock,
            perform=lambda effect: None,
            committed=lambda *_: None,
        )
        self.watch = GpuWatch(
            gpus=self.gpus,
            loop=self.loop,
            clock=self.clock,
            settings=WatchSettings(**settings),  # type: ignore[arg-type]
            attribution=Attribution(root, ()),
            in_force=self.in_force,
            more_found=self.found.append,
        )

    async def in_force(self) -> None:
        self.forced += 1

    async def sees(self, *sights: GpuSight, **more: object) -> None:
        self.gpus.next = Look(at_s=0.0, gpus=sights, **more)  # type: ignore[arg-type]
        await self.watch.look()

    @property
    def withheld(self) -> dict[int, HoldCause]:
        return {gpu.index: gpu.cause for gpu in self.loop.station.engine.state.holding.gpus}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path, quiet_s=5.0)
    running = asyncio.create_task(stage.loop.run())
    yield stage
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


OURSELVES = (GpuProcess(pid=os.getpid(), memory_bytes=7),)


async def test_the_owners_process_is_seen_yielded_to_and_given_back(stage: Stage) -> None:
    await stage.sees(GpuSight(index=0, processes=OURSELVES))
    assert stage.withheld == {0: OWN_WORK}
    assert stage.forced == 1  # the deadline is with the keepers before the next look
    await stage.sees(GpuSight(index=0, processes=()))
    assert stage.withheld == {0: OWN_WORK}
    stage.clock.at_s += 5.0
    await stage.sees(GpuSight(index=0, processes=()))
    assert stage.withheld == {}


async def test_nothing_follows_from_what_was_not_seen_anew(stage: Stage) -> None:
    await stage.sees(GpuSight(index=0, processes=OURSELVES), trouble="the driver hangs")
    await stage.sees(GpuSight(index=0, gone="lost"), trouble="the driver hangs")
    assert stage.withheld == {}
    (row,) = gpu_rows(stage.loop.station, stage.watch, 0.0)[:1]
    assert row["stale"] is True


async def test_a_driver_that_names_no_processes_makes_nobody_yield(stage: Stage) -> None:
    await stage.sees(GpuSight(index=0, processes=None))
    assert (stage.withheld, stage.watch.users) == ({}, {})


async def test_a_failed_card_is_withheld_with_its_reason_in_the_status(stage: Stage) -> None:
    await stage.sees(GpuSight(index=0, xids=(79,), temperature_c=50.0))
    row = gpu_rows(stage.loop.station, stage.watch, 0.0)[0]
    assert row["withheld"]["because"] == "GPU 0: it is out of order (Xid 79: it fell off the bus)"
    assert row["temperature_c"] == 50.0
    assert row["power_w"] is None


async def test_a_card_that_was_put_in_is_told(stage: Stage) -> None:
    more = (*some_facts().capacity.gpus, Gpu(index=9, model="x", memory_bytes=1))
    await stage.sees(found=more)
    assert stage.found == [more]


async def test_without_anybody_looking_nothing_stays_taken_for_work(stage: Stage) -> None:
    await stage.sees(GpuSight(index=0, processes=OURSELVES))
    assert stage.withheld != {}
    stage.gpus.watched = False
    task = asyncio.create_task(stage.watch.run())
    await until(lambda: stage.withheld == {})
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert stage.gpus.closed == 1


async def test_auto_yield_can_be_switched_off(tmp_path: Path) -> None:
    stage = Stage(tmp_path, auto_yield=False)
    running = asyncio.create_task(stage.loop.run())
    await stage.sees(GpuSight(index=0, processes=OURSELVES))
    assert stage.withheld == {}
    assert stage.watch.users[0][0].own_work
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


# --- settings ---------------------------------------------------------------------------------------

TABLE = {"coordinator": "http://campus.example", "node_id": "a1", "vault": "vault"}


def test_names_to_ignore_come_on_top_of_the_usual_ones(tmp_path: Path) -> None:
    table = {**TABLE, "gpu_source": "nvml", "gpu_watch": {"ignore": ["blender"], "yield_notice_s": 3}}
    settings = settings_of(table, tmp_path, {})
    assert settings.gpu_watch.ignore == (*USUALLY_IGNORED, "blender")
    assert (settings.gpu_watch.yield_notice_s, settings.gpu_source) == (3.0, "nvml")


@pytest.mark.parametrize(
    ("table", "trouble"),
    [
        ({"gpu_source": "cuda"}, "not one of"),
        ({"gpu_watch": {"autoyield": True}}, "did you mean 'auto_yield'"),
        ({"gpu_watch": {"period_s": 5}}, "too slow to yield"),
        ({"gpu_watch": {"auto_yield": 1}}, "true or false"),
    ],
)
def test_impossible_settings_are_named(tmp_path: Path, table: dict, trouble: str) -> None:
    with pytest.raises(SettingsTrouble, match=trouble):
        settings_of({**TABLE, **table}, tmp_path, {})


def test_every_word_is_one_an_owner_could_have_said() -> None:
    assert Word == OwnerReclaimed | OwnerResumed
