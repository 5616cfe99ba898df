"""The owner's socket and the kill that goes past it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpunion.agent.link.connection import Connection
from gpunion.agent.loop import AgentLoop
from gpunion.agent.owner import client as owner_client
from gpunion.agent.owner.api import OwnerApi
from gpunion.agent.owner.kill_file import KillListener
from gpunion.agent.owner.status import StatusBoard
from gpunion.agent.settings import settings_of
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.protocol.effects import AgentEffect, KillGuest
from gpunion.domain.protocol.events import GuestExited, GuestStarted, LeaseRenewed, OrderReceived
from gpunion.owner_kill import kill_all
from tests.unit.agent.fakes import FakeWorld, ScriptedDisk, until
from tests.unit.agent.values import RUN, a_station, an_order


class Stage:
    def __init__(self, root: Path) -> None:
        self.state_dir = root
        self.fake = FakeWorld(root)
        self.disk = ScriptedDisk()
        self.forced = 0
        self.performed: list[AgentEffect] = []
        self.loop = AgentLoop(
            station=a_station(),
            disk=self.disk,
            clock=self.fake.clock,
            perform=self.performed.append,
            committed=lambda *_: None,
        )
        table = {"coordinator": "http://campus.example", "node_id": "a1", "vault": "vault", "lab": "alpha"}
        connection = Connection(
            loop=self.loop, link=self.fake.link, clock=self.fake.clock, progress=lambda: ()
        )
        settings = settings_of(table, root, {})
        board = StatusBoard(settings=settings, world=self.fake.world, loop=self.loop, connection=connection)
        self.kills = KillListener(self.loop, root)
        self.api = OwnerApi(
            state_dir=root, loop=self.loop, board=board, in_force=self.in_force, kills=self.kills
        )

    async def in_force(self) -> None:
        self.forced += 1

    async def say(self, verb: str, **details: Any) -> dict[str, Any]:
        return await asyncio.to_thread(owner_client.ask, self.state_dir, verb, **details)

    async def with_a_guest(self) -> None:
        station = self.loop.station
        await self.fake.runtime.prepare_paths(RUN)
        self.fake.run_notes.write(an_order(), self.fake.runtime.paths(RUN))
        for event, seq in (
            (LeaseRenewed(until_s=1010.0), None),
            (OrderReceived(order=an_order()), 1),
            (GuestStarted(run_id=RUN, restored=None, resumed_step=3, restore_s=0.0), None),
        ):
            station.committed(station.decide(1000.0, event, seq))

    @property
    def owner_state(self) -> OwnerState:
        return self.loop.station.engine.state.holding.owner_state


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    deep = tmp_path / ("a" * 60) / ("b" * 60)  # longer than a socket's own address may be
    deep.mkdir(parents=True)
    stage = Stage(deep)
    await stage.api.open()
    running = asyncio.create_task(stage.loop.run())
    yield stage
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    stage.api.close()


async def test_status_says_first_what_runs_here_and_then_how_to_stop_it(stage: Stage) -> None:
    await stage.with_a_guest()
    status = (await stage.say("status"))["status"]
    assert list(status)[:2] == ["guests", "how_to_stop"]
    [guest] = status["guests"]
    assert (guest["job_id"], guest["epoch"], guest["phase"], guest["gpus"], guest["step"]) == (
        "job-1",
        1,
        "running",
        [0],
        3,
    )
    assert guest["since"].endswith("Z")
    assert status["how_to_stop"] == ["gpunion reclaim --notice 60s", "gpunion kill"]
    assert status["lease_left_s"] == 10.0
    assert status["coordinator"]["connected"] is False
    assert status["runtime"]["described"] == "no guests at all"


async def test_with_nobody_here_there_is_nothing_to_stop(stage: Stage) -> None:
    status = (await stage.say("status"))["status"]
    assert status["guests"] == status["how_to_stop"] == []


async def test_the_socket_is_the_owner_s_alone(stage: Stage) -> None:
    assert (stage.state_dir / "owner.sock").stat().st_mode & 0o777 == 0o600


async def test_pause_and_resume(stage: Stage) -> None:
    paused = await stage.say("pause")
    assert paused["status"]["tenure"] == "paused"
    assert paused["message"] == "No new guests come until `gpunion resume`."
    assert (await stage.say("resume"))["status"]["tenure"] == "sharing"


async def test_reclaiming_an_empty_machine_gives_it_at_once(stage: Stage) -> None:
    answer = await stage.say("reclaim", notice_s=30)
    assert "is yours" in answer["message"]
    assert stage.owner_state is OwnerState.RECLAIMED


async def test_who_pauses_hears_what_becomes_of_the_guests_that_are_here(stage: Stage) -> None:
    await stage.with_a_guest()
    assert "Those here may stay" in (await stage.say("pause"))["message"]
    await stage.say("reclaim")
    assert "those here are leaving as before" in (await stage.say("pause"))["message"]


async def test_reclaiming_with_a_guest_says_how_long_at_most(stage: Stage) -> None:
    await stage.with_a_guest()
    answer = await stage.say("reclaim")
    assert "60 s at most" in answer["message"]
    assert stage.forced == 1  # the keepers have the deadline before the owner has the answer
    assert answer["status"]["deadline_in_s"] == 60.0


@pytest.mark.parametrize(
    ("notice_s", "told"),
    [(1.5, "2 s"), (60, "60 s"), (90, "1 min 30 s"), (5400, "90 min"), (9000, "2 h 30 min"), (86400, "24 h")],
)
async def test_a_notice_is_told_as_a_person_would_and_never_as_shorter_than_it_is(
    stage: Stage, notice_s: float, told: str
) -> None:
    await stage.with_a_guest()
    answer = await stage.say("reclaim", notice_s=notice_s)
    assert f"The machine is yours in {told} at most." in answer["message"]


@pytest.mark.parametrize("notice_s", [-1, "soon", True, 1e9, float("nan"), 10**400])
async def test_a_notice_that_is_none_is_refused(stage: Stage, notice_s: object) -> None:
    with pytest.raises(owner_client.Refused):
        await stage.say("reclaim", notice_s=notice_s)
    assert stage.owner_state is OwnerState.SHARING


async def test_after_leaving_there_is_nothing_to_resume(stage: Stage) -> None:
    await stage.say("leave", notice_s=0)
    assert stage.owner_state is OwnerState.LEFT
    for verb in ("resume", "leave"):
        with pytest.raises(owner_client.Refused, match="left"):
            await stage.say(verb)


async def test_kill_ends_guests_and_keeps_new_ones_out_until_resumed(stage: Stage) -> None:
    await stage.with_a_guest()
    await stage.say("kill")
    assert any(isinstance(effect, KillGuest) for effect in stage.performed)
    assert (stage.state_dir / "owner" / "killed.json").exists()
    await stage.say("resume")
    assert not (stage.state_dir / "owner" / "killed.json").exists()


async def test_an_owner_is_warned_when_the_disk_would_not_take_their_word(stage: Stage) -> None:
    stage.disk.full = True
    answer = await stage.say("pause")
    assert "WARNING" in answer["message"]
    assert stage.owner_state is OwnerState.PAUSED


@pytest.mark.parametrize("line", [b"hello\n", b"[]\n", b'{"verb": "dance"}\n', b"\n", b"[" * 5000 + b"\n"])
async def test_nonsense_is_answered_in_words(stage: Stage, line: bytes) -> None:
    answer = await asyncio.to_thread(raw_exchange, stage.state_dir, line)
    assert answer["ok"] is False
    assert answer["error"]


async def test_a_request_without_end_does_not_hurt(stage: Stage) -> None:
    with contextlib.suppress(OSError, ValueError):
        await asyncio.to_thread(raw_exchange, stage.state_dir, b"x" * 200_000)
    assert (await stage.say("status"))["ok"]


def raw_exchange(state_dir: Path, line: bytes) -> dict[str, Any]:
    raw = owner_client._exchange(str(state_dir), line)
    answer: dict[str, Any] = json.loads(raw)
    return answer


def test_without_an_agent_the_owner_hears_that_kill_still_works(tmp_path: Path) -> None:
    with pytest.raises(owner_client.AgentNotRunning, match="gpunion kill"):
        owner_client.status(tmp_path)


def test_without_a_state_directory_the_owner_hears_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(owner_client.AgentNotRunning, match="GPUNION_STATE_DIR"):
        owner_client.status(tmp_path / "nowhere")


def test_a_socket_that_nobody_listens_to_is_an_agent_that_is_not_running(tmp_path: Path) -> None:
    left_over = socket.socket(socket.AF_UNIX)
    left_over.bind(str(tmp_path / "owner.sock"))
    left_over.close()
    with pytest.raises(owner_client.AgentNotRunning):
        owner_client.status(tmp_path)


async def test_a_kill_that_went_past_the_agent_is_heard_once(stage: Stage) -> None:
    await stage.with_a_guest()
    await asyncio.to_thread(kill_all, stage.state_dir)
    for _ in range(3):
        stage.kills.look()
    await until(lambda: stage.owner_state is OwnerState.RECLAIMED)
    stage.kills.look()
    await asyncio.sleep(0.02)
    reports = list(stage.loop.station.reports.waiting.values())
    assert [type(report).__name__ for report in reports].count("NodeReclaimed") == 1


async def test_who_asks_right_after_a_kill_is_not_told_that_guests_may_come(stage: Stage) -> None:
    await asyncio.to_thread(kill_all, stage.state_dir)
    status = (await stage.say("status"))["status"]
    assert (status["tenure"], status["killed"]) == ("reclaimed", True)
    assert (await stage.say("resume"))["status"]["tenure"] == "sharing"
    assert (await stage.say("status"))["status"]["tenure"] == "sharing"


async def test_the_kill_is_told_before_the_death_it_caused(stage: Stage) -> None:
    await stage.with_a_guest()
    await asyncio.to_thread(kill_all, stage.state_dir)
    stage.kills.post(GuestExited(run_id=RUN, exit_code=137, last_step=3))
    await until(lambda: RUN not in stage.loop.station.engine.state.guests)
    kinds = [type(report).__name__ for report in stage.loop.station.reports.waiting.values()]
    assert kinds.index("NodeReclaimed") < kinds.index("RunEnded")
