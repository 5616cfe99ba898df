from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpunion.agent.link import connection as connection_module
from gpunion.agent.link.connection import FIRST_WAIT_S, JITTER, LONGEST_WAIT_S, Connection, before_lease_ends
from gpunion.agent.loop import AgentLoop
from gpunion.domain.nodes.node import DiskRoom
from gpunion.domain.protocol.events import OwnerPaused
from gpunion.domain.protocol.frames import (
    FromAgent,
    GpuReading,
    GpuReadings,
    Heartbeat,
    Hello,
    Progress,
    ReportFrame,
    Welcome,
)
from gpunion.domain.timing import Timing
from gpunion.ports.clock import BootClock
from gpunion.ports.coordinator_link import LinkFault
from tests.unit.agent.fake_link import FakeLink
from tests.unit.agent.fakes import ScriptedDisk, until
from tests.unit.agent.values import RUN, a_station

WELCOME = Welcome(
    term=1, orders_before=0, ack=0, timing=Timing(heartbeat_s=0.01), sent_s=0.0, hello_sent_s=0.0
)
SOON_SILENT = Welcome(
    term=1,
    orders_before=0,
    ack=0,
    timing=Timing(heartbeat_s=0.01, lease_s=0.5),
    sent_s=0.0,
    hello_sent_s=0.0,
)
PATIENT = Welcome(term=1, orders_before=0, ack=0, timing=Timing(lease_s=3600.0), sent_s=0.0, hello_sent_s=0.0)

READINGS = GpuReadings(gpus=(GpuReading(index=0, uuid="GPU-1a", utilisation=0.5),))


class Stage:
    def __init__(self, link: FakeLink | None = None) -> None:
        self.link = link or FakeLink()
        clock = BootClock()
        self.loop = AgentLoop(
            station=a_station(),
            disk=ScriptedDisk(),
            clock=clock,
            perform=lambda _: None,
            committed=lambda *_: None,
        )
        progress = (Progress(run_id=RUN, step=3, progress=0.5),)
        self.connection = Connection(
            loop=self.loop,
            link=self.link,
            clock=clock,
            progress=lambda: progress,
            readings=lambda: READINGS,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The task of the connection."""
        tasks = [asyncio.create_task(self.loop.run()), asyncio.create_task(self.connection.run())]
        try:
            yield tasks[1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def sent(self, kind: type) -> list[object]:
        return [frame for frame in self.link.sent if isinstance(frame, kind)]


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    for name in ("FIRST_WAIT_S", "LONGEST_WAIT_S", "PERMANENT_WAIT_S"):
        monkeypatch.setattr(connection_module, name, 0.001)
    stage = Stage()
    async with stage.running():
        yield stage


async def test_hello_comes_first_and_heartbeats_only_after_the_welcome(stage: Stage) -> None:
    await until(lambda: stage.link.sent)
    await asyncio.sleep(0.1)
    assert [type(frame) for frame in stage.link.sent] == [Hello]
    stage.link.to_agent.put_nowait(WELCOME)
    await until(lambda: len(stage.sent(Heartbeat)) >= 3)
    beat = stage.sent(Heartbeat)[0]
    assert isinstance(beat, Heartbeat)
    assert beat.progress == (Progress(run_id=RUN, step=3, progress=0.5),)
    assert stage.connection.trouble == ""


async def test_figures_of_gpus_follow_the_first_heartbeat(stage: Stage) -> None:
    stage.link.to_agent.put_nowait(WELCOME)
    await until(lambda: stage.sent(GpuReadings))
    assert [type(frame) for frame in stage.link.sent[:3]] == [Hello, Heartbeat, GpuReadings]
    assert stage.sent(GpuReadings) == [READINGS]


async def test_a_report_goes_out_without_waiting_for_a_heartbeat(stage: Stage) -> None:
    slow = Welcome(
        term=1, orders_before=0, ack=0, timing=Timing(heartbeat_s=3600.0), sent_s=0.0, hello_sent_s=0.0
    )
    stage.link.to_agent.put_nowait(slow)
    await until(lambda: stage.loop.station.connected)
    await stage.loop.owner_said(OwnerPaused())
    await until(lambda: stage.sent(ReportFrame))


async def test_a_lost_connection_is_opened_again_and_unacknowledged_reports_go_again(stage: Stage) -> None:
    stage.link.to_agent.put_nowait(WELCOME)
    await until(lambda: stage.loop.station.connected)
    await stage.loop.owner_said(OwnerPaused())
    await until(lambda: stage.sent(ReportFrame))
    stage.link.to_agent.put_nowait(None)
    await until(lambda: stage.link.connections == 2 and len(stage.sent(Hello)) == 2)
    sent_before = len(stage.sent(ReportFrame))
    stage.link.to_agent.put_nowait(WELCOME)
    await until(lambda: len(stage.sent(ReportFrame)) > sent_before)


async def test_a_connection_on_which_nothing_comes_is_given_up(stage: Stage) -> None:
    """A cut cable closes nothing: only the missing answers tell."""
    stage.link.to_agent.put_nowait(SOON_SILENT)
    await until(lambda: stage.link.connections >= 2)
    assert "nothing was heard" in stage.connection.trouble


async def test_a_coordinator_that_refuses_is_asked_again_and_the_trouble_is_shown(stage: Stage) -> None:
    stage.link.refused = LinkFault("wrong credential", temporary=False)
    stage.link.to_agent.put_nowait(None)
    await until(lambda: stage.connection.trouble == "wrong credential")
    before = stage.link.connections
    await until(lambda: stage.link.connections > before + 2)
    stage.link.refused = None
    stage.link.to_agent.put_nowait(WELCOME)
    await until(lambda: stage.loop.station.connected)


class Stubborn(FakeLink):
    """Its first heartbeat waits until the test says what becomes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.beating = asyncio.Event()
        self.leaving = asyncio.Event()
        self.cable_pulled = asyncio.Event()

    async def send(self, frame: FromAgent) -> None:
        await super().send(frame)
        if isinstance(frame, Heartbeat) and not self.beating.is_set():
            self.beating.set()
            try:
                await self.cable_pulled.wait()
            except asyncio.CancelledError:
                self.leaving.set()
                await asyncio.sleep(0.01)
                raise
            raise LinkFault("the cable was pulled", temporary=True)


async def test_who_is_cancelled_while_a_connection_breaks_does_not_open_another() -> None:
    stage = Stage(Stubborn())
    link = stage.link
    assert isinstance(link, Stubborn)
    async with stage.running() as connection:
        link.to_agent.put_nowait(SOON_SILENT)
        await link.beating.wait()
        await link.leaving.wait()  # nothing was heard, so the sender has to go
        connection.cancel()
        done, _ = await asyncio.wait([connection], timeout=30)
        assert done == {connection}
        assert connection.cancelled()


async def test_after_both_sides_failed_at_once_silence_is_noticed_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "FIRST_WAIT_S", 0.001)
    stage = Stage(Stubborn())
    link = stage.link
    assert isinstance(link, Stubborn)
    async with stage.running() as connection:
        link.to_agent.put_nowait(WELCOME)
        await link.beating.wait()
        link.cable_pulled.set()
        link.to_agent.put_nowait(None)
        await until(lambda: link.connections == 2)
        link.to_agent.put_nowait(SOON_SILENT)
        await until(lambda: link.connections >= 3 or connection.done())
        assert not connection.done()


class Eventful(FakeLink):
    """Something happens while the first hello is on its way."""

    meanwhile: Callable[[], None]

    async def send(self, frame: FromAgent) -> None:
        await super().send(frame)
        if len(self.sent) == 1:
            self.meanwhile()


async def test_what_changes_while_a_hello_is_on_its_way_is_told_in_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "FIRST_WAIT_S", 0.001)
    link = Eventful()
    stage = Stage(link)
    station = stage.loop.station

    def disk_fills_up() -> None:
        station.change_facts(replace(station.facts, disk=DiskRoom.FULL))
        stage.connection.greet_again()

    link.meanwhile = disk_fills_up
    link.to_agent.put_nowait(PATIENT)
    with capture_logs() as lines:
        async with stage.running():
            await until(lambda: len(stage.sent(Hello)) == 2)
    told = [frame.facts.disk for frame in link.sent if isinstance(frame, Hello)]
    assert told == [DiskRoom.FINE, DiskRoom.FULL]
    assert ("greets_again", "info") in [(line["event"], line["log_level"]) for line in lines]
    assert [line for line in lines if line["log_level"] == "warning"] == []  # nothing is wrong


@pytest.mark.parametrize("answered_ago_s", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("jitter", JITTER)
def test_a_coordinator_that_is_back_in_time_is_called_while_guests_still_may_go_on(
    jitter: float, answered_ago_s: float
) -> None:
    timing = Timing()
    lease_over_s = timing.lease_s - answered_ago_s
    called_s, wait_s, calls = 0.0, FIRST_WAIT_S, []
    while called_s < lease_over_s:
        calls.append(called_s)
        wait_s = min(LONGEST_WAIT_S, wait_s * 2)
        called_s += jitter * before_lease_ends(wait_s, lease_over_s - called_s)
    assert max(calls) > 7.5  # of a restart that took this long, the worst of them still hears
    assert len(calls) < 50


def test_who_has_no_guests_to_lose_calls_as_seldom_as_ever() -> None:
    assert before_lease_ends(5.0, 0.0) == 5.0
    assert before_lease_ends(5.0, 3600.0) == 5.0
    assert before_lease_ends(0.2, 0.1) == 0.2
