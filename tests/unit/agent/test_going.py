"""How a guest ends, and what is said of it."""

from __future__ import annotations

import asyncio
import signal

import pytest

from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import (
    GuestExited,
)
from gpunion.ports.runtime import ExitReason
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.guests import started
from tests.unit.agent.values import RUN


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (ExitReason.EXITED, None),
        (ExitReason.SIGNALLED, None),
        (ExitReason.OUT_OF_MEMORY, None),
        (ExitReason.KILLED_BY_OWNER, EndReason.KILLED_BY_OWNER),
        (ExitReason.LEASE_ENDED, EndReason.LEASE_ENDED),
        (ExitReason.DEADLINE, EndReason.DEADLINE),
        (ExitReason.LOST, EndReason.GUEST_LOST),
        (ExitReason.NOT_STARTED, EndReason.START_FAILED),
    ],
)
async def test_who_ended_a_guest_is_told(
    fake: FakeWorld, reason: ExitReason, cause: EndReason | None
) -> None:
    await started(fake)
    fake.runtime.end(RUN, 137, reason)
    await until(lambda: fake.posted)
    [event] = fake.posted
    assert isinstance(event, GuestExited)
    assert event.cause is cause


async def test_a_program_that_saved_for_the_last_time_may_leave_by_itself(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.kill(EndReason.SAVED)
    fake.runtime.end(RUN, 85, ExitReason.EXITED)
    await until(lambda: fake.posted)
    await hands.remove()
    [event] = fake.posted
    assert isinstance(event, GuestExited)
    assert (event.exit_code, event.cause) == (85, None)
    assert f"kill {RUN} stopped" not in fake.journal


async def test_a_program_that_stays_after_its_last_save_is_ended_and_the_owner_s_kill_does_not_wait(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunion.agent.guests.controller.LEAVE_S", 3600.0)
    hands = await started(fake)
    hands.kill(EndReason.SAVED)
    await asyncio.sleep(0)
    assert not fake.of(GuestExited)
    hands.kill(EndReason.KILLED_BY_OWNER)
    await until(lambda: fake.of(GuestExited))
    assert f"kill {RUN} killed_by_owner" in fake.journal


async def test_a_killed_guest_s_end_names_the_cause_it_was_killed_for(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunion.agent.guests.controller.LEAVE_S", 0.0)
    hands = await started(fake)
    hands.kill(EndReason.SAVED)
    await until(lambda: fake.posted)
    await hands.remove()
    [event] = fake.posted
    assert isinstance(event, GuestExited)
    assert event.cause is EndReason.SAVED
    assert f"kill {RUN} stopped" in fake.journal


async def test_ending_is_tried_until_nothing_lives(fake: FakeWorld) -> None:
    hands = await started(fake)
    fake.runtime.kill_faults = 1
    hands.kill(EndReason.KILLED_BY_OWNER)
    await until(lambda: fake.posted)
    assert fake.journal.count(f"kill {RUN} killed_by_owner") == 2


async def test_a_notice_is_left_for_the_program_and_taken_back(fake: FakeWorld) -> None:
    hands = await started(fake)
    control_dir = fake.runtime.paths(RUN).control_dir
    hands.notice(1060.0)
    await until(lambda: fake.control.read_json(control_dir, "notice.json"))
    assert (fake.control.read_json(control_dir, "notice.json") or {})["gpus"] == [0]
    hands.notice(None)
    await until(lambda: fake.control.read_json(control_dir, "notice.json") is None)


async def test_asking_a_running_program_to_go_is_a_signal(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.terminate()
    await until(lambda: f"signal {RUN} {int(signal.SIGTERM)}" in fake.journal)


async def test_removing_leaves_nothing_and_may_be_repeated(fake: FakeWorld) -> None:
    hands = await started(fake)
    fake.runtime.end(RUN, 0, ExitReason.EXITED)
    await until(lambda: fake.posted)
    await hands.remove()
    await hands.remove()
    assert fake.run_notes.get(RUN) is None
    assert not (fake.root / "spool" / RUN).exists()
    assert list((fake.root / "runs").iterdir()) == []
