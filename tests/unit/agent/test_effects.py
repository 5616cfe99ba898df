from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.agent.effects import Performer
from gpunion.agent.link.log_upload import LogPusher
from gpunion.agent.machine.block_server import desk_for_others
from gpunion.agent.machine.caps import Caps
from gpunion.agent.run_records.notes import RunNotes
from gpunion.domain.ids import RunId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.passes import token_of
from gpunion.domain.protocol.effects import (
    CancelShipping,
    CancelTimer,
    KillGuest,
    RemoveGuest,
    ShipOutput,
    StartGuest,
    TellNotice,
    TerminateGuest,
)
from gpunion.domain.protocol.events import GuestExited, GuestFound, GuestStarted, OutputShipped
from gpunion.domain.protocol.frames import Progress
from gpunion.domain.protocol.timers import LeaseOver
from gpunion.ports.runtime import ExitReason
from gpunion.vault.files_ready import DirectoryReady
from gpunion.vault.manifest import JobKey
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.values import RUN, an_order


@pytest.fixture
def performer(fake: FakeWorld) -> Performer:
    logs = LogPusher(fake.link, fake.root / "logs")
    logs.open()
    return Performer(fake.world, logs)


async def started(fake: FakeWorld, performer: Performer) -> None:
    performer.perform(StartGuest(order=an_order(), lease_until_s=1010.0))
    await until(lambda: fake.of(GuestStarted))
    control_dir = fake.runtime.paths(RUN).control_dir
    fake.control.write_json(control_dir, "progress.json", {"step": 5, "progress": 0.25})


async def test_a_guest_s_whole_stay_leaves_nothing_behind(fake: FakeWorld, performer: Performer) -> None:
    await started(fake, performer)
    assert performer.progress() == (Progress(run_id=RUN, step=5, progress=0.25),)
    performer.perform(TellNotice(run_id=RUN, deadline_s=1060.0))
    performer.perform(TerminateGuest(run_id=RUN))
    performer.perform(KillGuest(run_id=RUN, cause=EndReason.STOPPED))
    await until(lambda: fake.of(GuestExited))
    performer.perform(ShipOutput(run_id=RUN))
    await until(lambda: fake.of(OutputShipped))
    performer.perform(CancelShipping(run_id=RUN))
    performer.perform(CancelTimer(timer=LeaseOver()))
    performer.perform(RemoveGuest(run_id=RUN))
    performer.perform(RemoveGuest(run_id=RUN))
    await performer.settle()
    assert fake.runtime.table == {}
    assert performer.progress() == ()
    assert fake.run_notes.all() == ()


async def test_a_restarted_agent_finds_its_guests_with_how_far_they_are(
    fake: FakeWorld, performer: Performer
) -> None:
    await started(fake, performer)
    fresh = Performer(fake.world, LogPusher(fake.link, fake.root / "logs"))
    found = await fresh.find()
    assert found == (GuestFound(run_id=RUN, alive=True, last_step=5, last_progress=0.25),)
    fresh.adopt(found)
    fresh.bury(found, [RUN])
    fake.posted.clear()
    fake.runtime.end(RUN, 0, ExitReason.EXITED)
    await until(lambda: fake.of(GuestExited))


async def test_a_restarted_agent_still_gives_others_the_blocks_of_its_guests(fake: FakeWorld) -> None:
    order = an_order(run_key="5a" * 32)
    fake.runtime.put(RUN, order.job_id, order.epoch, alive=True)
    RunNotes(fake.root).write(order, fake.runtime.paths(RUN))
    run_notes = RunNotes(fake.root)
    run_notes.open()
    ready = DirectoryReady(fake.root / "states", limit_bytes=1)
    desk = desk_for_others(ready, Caps(), lambda: OwnerState.SHARING)
    world = replace(fake.world, run_notes=run_notes, desk=desk)
    fresh = Performer(world, LogPusher(fake.link, fake.root / "logs"))
    fresh.adopt(await fresh.find())
    token = desk.token_of(order.job_id, "bearer", 1.0)
    assert token == token_of("5a" * 32, order.job_id, "bearer", 1.0)
    assert "5a5a" not in f"{run_notes.all()}"


async def test_a_guest_that_ended_meanwhile_is_found_with_who_ended_it(
    fake: FakeWorld, performer: Performer
) -> None:
    await started(fake, performer)
    fake.runtime.end(RUN, 137, ExitReason.LEASE_ENDED)
    found = await Performer(fake.world, LogPusher(fake.link, fake.root / "logs")).find()
    ended_by = EndReason.LEASE_ENDED
    assert found == (
        GuestFound(run_id=RUN, alive=False, exit_code=137, last_step=5, last_progress=0.25, cause=ended_by),
    )


async def test_what_nobody_remembers_is_removed(fake: FakeWorld, performer: Performer) -> None:
    await started(fake, performer)
    stranger = RunId("job-9-e1")
    fake.runtime.put(stranger, "job-9", 1, alive=True)
    fake.runtime.put("job-8-e1", "job-8", 1, alive=False)
    fresh = Performer(fake.world, LogPusher(fake.link, fake.root / "logs"))
    found = await fresh.find()
    assert {guest.run_id for guest in found} == {RUN, stranger}
    assert "job-8-e1" not in fake.runtime.table
    fresh.adopt(found)
    fresh.perform(KillGuest(run_id=stranger, cause=EndReason.STOPPED))
    fresh.bury(found, [RUN])
    await fresh.settle()
    assert set(fake.runtime.table) == {RUN}


def test_a_note_that_is_damaged_makes_its_guest_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "y.json").write_text("no")
    run_notes = RunNotes(tmp_path)
    run_notes.open()
    assert run_notes.all() == ()


def test_a_key_is_noted_for_this_user_only_and_torn_out_with_the_run(fake: FakeWorld, tmp_path: Path) -> None:
    order = an_order(vault_key="ab" * 32)
    RunNotes(tmp_path).write(order, fake.runtime.paths(RUN))
    path = tmp_path / f"{RUN}.json"
    assert path.stat().st_mode & 0o077 == 0
    again = RunNotes(tmp_path)
    again.open()
    note = again.get(RUN)
    assert note is not None
    assert note.key == JobKey(job_id=order.job_id, secret=bytes.fromhex("ab" * 32))
    assert "abab" not in f"{order} {note}"
    damaged = path.read_text().replace("ab" * 32, "no key")
    again.forget(RUN)
    assert not path.exists()
    path.write_text(damaged)
    again.open()
    assert again.get(RUN) is None, "going on without the key would save in the clear"
