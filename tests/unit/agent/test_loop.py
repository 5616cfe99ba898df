"""Decide, remember, then act: in that order, whatever the disk does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from gpunion.agent import loop
from gpunion.agent.loop import AgentLoop
from gpunion.agent.next_saved_state import saved_after
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.protocol.effects import AgentEffect, AskToSave, KillGuest, LimitGuest, StartGuest
from gpunion.domain.protocol.events import (
    AgentEvent,
    AgentStarted,
    GuestExited,
    GuestFound,
    GuestStarted,
    LeaseRenewed,
    OrderReceived,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
    TimerFired,
)
from gpunion.domain.protocol.frames import CoordinatorFrame, LeaseGrant, OrderFrame, ReportFrame, Welcome
from gpunion.domain.protocol.timers import agent_timer
from gpunion.domain.timing import Timing
from tests.unit.agent.fakes import ManualClock, ScriptedDisk, until
from tests.unit.agent.values import RUN, a_station, an_order


@dataclass
class Stage:
    loop: AgentLoop
    disk: ScriptedDisk
    clock: ManualClock
    performed: list[AgentEffect]
    journal: list[str]

    def welcome(self) -> CoordinatorFrame:
        return Welcome(term=1, orders_before=0, ack=0, timing=Timing(), sent_s=0.0, hello_sent_s=0.0)

    def grant(self, *, lease_s: float = 10.0) -> CoordinatorFrame:
        return LeaseGrant(term=1, heartbeat_sent_s=self.clock.at_s, lease_s=lease_s, ack=0, sent_s=0.0)

    def start_order(self, seq: int = 1) -> CoordinatorFrame:
        return OrderFrame(term=1, seq=seq, ack=0, sent_s=0.0, order=an_order())

    async def connect(self) -> None:
        await self.loop.connected()
        await self.loop.arrived(self.welcome())
        await self.loop.arrived(self.grant())


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    journal: list[str] = []
    performed: list[AgentEffect] = []

    def perform(effect: AgentEffect) -> None:
        journal.append(type(effect).__name__)
        performed.append(effect)

    disk, clock = ScriptedDisk(journal), ManualClock()
    loop = AgentLoop(station=a_station(), disk=disk, clock=clock, perform=perform, committed=lambda *_: None)
    running = asyncio.create_task(loop.run())
    yield Stage(loop, disk, clock, performed, journal)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_an_effect_is_performed_only_after_the_disk_has_the_decision(stage: Stage) -> None:
    await stage.connect()
    stage.journal.clear()
    await stage.loop.arrived(stage.start_order())
    assert stage.journal == ["write", "StartGuest", "LimitGuest"]
    assert [type(effect) for effect in stage.performed] == [StartGuest, LimitGuest]


async def test_the_disk_has_the_order_s_number_before_it_is_acknowledged(stage: Stage) -> None:
    await stage.connect()
    assert stage.loop.heartbeat(()).ack == 0
    await stage.loop.arrived(stage.start_order())
    assert stage.disk.writes[-1].order_seq == 1
    assert stage.loop.heartbeat(()).ack == 1


async def test_an_order_that_comes_twice_is_taken_once(stage: Stage) -> None:
    await stage.connect()
    await stage.loop.arrived(stage.start_order())
    await stage.loop.arrived(stage.start_order())
    assert stage.journal.count("StartGuest") == 1


async def test_heartbeats_cost_no_write(stage: Stage) -> None:
    await stage.connect()
    await stage.loop.arrived(stage.start_order())
    stage.loop.post(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.0))
    await until(lambda: len(stage.disk.writes) == 2)
    for _ in range(20):
        stage.clock.at_s += 2.0
        await stage.loop.arrived(stage.grant())
    assert len(stage.disk.writes) == 2
    assert isinstance(stage.performed[-1], LimitGuest)


async def test_with_a_full_disk_no_order_is_taken_until_there_is_room_again(stage: Stage) -> None:
    await stage.connect()
    stage.disk.full = True
    await stage.loop.arrived(stage.start_order())
    assert "StartGuest" not in stage.journal
    assert stage.loop.heartbeat(()).ack == 0
    stage.disk.full = False
    await stage.loop.arrived(stage.start_order())
    assert stage.journal[-3:] == ["write", "StartGuest", "LimitGuest"]


async def test_the_owner_s_word_counts_with_a_full_disk_and_the_owner_is_told(stage: Stage) -> None:
    await stage.connect()
    await stage.loop.arrived(stage.start_order())
    stage.disk.full = True
    answer = await stage.loop.owner_said(OwnerKilled())
    assert isinstance(stage.performed[-1], KillGuest)
    assert "full" in answer.forgettable


async def test_reports_wait_until_the_disk_has_them(stage: Stage) -> None:
    await stage.connect()
    stage.disk.full = True
    await stage.loop.owner_said(OwnerPaused())
    assert stage.loop.outgoing() == []
    stage.disk.full = False
    await until(lambda: stage.loop.outgoing() or not stage.loop.forgettable)
    assert stage.disk.writes[-1].last_report_seq == 1
    assert stage.loop.forgettable == ""


async def test_who_deletes_what_is_told_of_waits_for_the_disk_but_for_one_that_only_lacks_room(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "TICK_S", 0.001)
    stage.disk.full = True
    await stage.loop.wrote_down(OwnerPaused())
    stage.disk.full, stage.disk.failing = False, True
    await until(lambda: stage.loop.forgettable == "the disk fails")
    waiting = asyncio.create_task(stage.loop.wrote_down(OwnerResumed()))
    await until(lambda: stage.loop.station.reports.last_seq == 2)
    assert not waiting.done()
    stage.disk.failing = False
    await waiting
    assert stage.disk.writes[-1].last_report_seq == 2


async def test_a_report_is_sent_once_the_disk_has_it(stage: Stage) -> None:
    await stage.connect()
    await stage.loop.owner_said(OwnerPaused())
    [frame] = stage.loop.outgoing()
    assert isinstance(frame, ReportFrame)
    assert stage.disk.writes[-1].reports[0].seq == frame.seq == 1


async def test_the_owner_is_heard_before_the_coordinator(stage: Stage) -> None:
    await stage.connect()
    ordered = asyncio.create_task(stage.loop.arrived(stage.start_order()))
    await asyncio.sleep(0)  # the order is in the queue now
    await stage.loop.owner_said(OwnerPaused())
    await ordered
    assert "StartGuest" not in stage.journal


async def test_a_timer_fires_when_its_time_has_come(stage: Stage) -> None:
    await stage.connect()
    await stage.loop.arrived(stage.start_order())
    stage.loop.post(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.0))
    await stage.loop.owner_said(OwnerReclaimed(notice_s=30.0))
    assert "KillGuest" not in stage.journal
    stage.clock.at_s += 31.0
    await until(lambda: "KillGuest" in stage.journal)


async def test_frames_of_a_connection_that_is_over_change_nothing(stage: Stage) -> None:
    await stage.connect()
    stage.loop.disconnected()
    await stage.loop.arrived(stage.start_order())
    assert "StartGuest" not in stage.journal


async def test_a_waiting_sender_is_woken_by_a_report(stage: Stage) -> None:
    await stage.connect()
    await stage.loop.something_to_send(0.0)
    waiting = asyncio.create_task(stage.loop.something_to_send(3600.0))
    await stage.loop.owner_said(OwnerPaused())
    await asyncio.wait_for(waiting, 60)


async def test_an_old_timer_does_not_fire_before_the_guests_were_found() -> None:
    """The disk's lease timer is an old one, for heartbeats are not written. It must not evict anybody."""
    station = a_station()
    for event in EVENTS[:4]:
        station.committed(station.decide(1000.0, event, 1 if isinstance(event, OrderReceived) else None))
    performed: list[AgentEffect] = []
    loop = AgentLoop(
        station=a_station(station.saved()),
        disk=ScriptedDisk(),
        clock=ManualClock(5000.0),
        perform=performed.append,
        committed=lambda *_: None,
    )
    assert loop.station.due(5000.0) is not None
    await loop.begin(AgentStarted(found=(GuestFound(run_id=RUN, alive=True),)))
    running = asyncio.create_task(loop.run())
    await asyncio.sleep(0.05)
    running.cancel()
    assert [effect for effect in performed if isinstance(effect, AskToSave | KillGuest)] == []


EVENTS: list[AgentEvent] = [
    AgentStarted(found=()),
    LeaseRenewed(until_s=2000.0),
    OrderReceived(order=an_order()),
    GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.1),
    OwnerReclaimed(notice_s=30.0),
    TimerFired(timer=agent_timer("own_save")),
    OwnerResumed(),
    OwnerKilled(),
    GuestExited(run_id=RUN, exit_code=137, last_step=4),
    OwnerResumed(),
]


def test_what_is_written_ahead_is_what_memory_then_is() -> None:
    station = a_station()
    for number, event in enumerate(EVENTS):
        commit = station.decide(1000.0, event, number + 1 if isinstance(event, OrderReceived) else None)
        ahead = saved_after(station, commit)
        station.committed(commit)
        assert ahead == station.saved(), event
    assert station.engine.state.holding.owner_state is OwnerState.SHARING
