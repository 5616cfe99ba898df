"""Whoever asks for a session that moves waits for it, so long and no longer, and is then led on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.routes.sessions.holding import LOOK_S, UNANSWERED_LIMIT_S, lead
from gpunion.coordinator.services import Campus
from gpunion.coordinator.sessions.waiting import HELD_OF_ONE_MAX, Waiting
from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.frames import SessionNote
from gpunion.tunnel.streams import Stream, StreamRefused, Tunnel
from gpunion.tunnel.targets import Place, Port, Socket, Target
from tests.builders.headquarters import Headquarters
from tests.unit.core.engine.test_sessions import a_session

JOB = JobId("job")


class FakeTunnels:
    """Opens whatever it is asked for, or refuses with what `why` says."""

    def __init__(self) -> None:
        self.why = ""
        self.asked: list[tuple[NodeId, RunId]] = []

    async def open(self, node_id: NodeId, target: Target) -> tuple[Tunnel, Stream]:
        self.asked.append((node_id, RunId(target.run_id)))
        if self.why:
            raise StreamRefused(self.why)
        tunnel = Tunnel(_nowhere)
        return tunnel, Stream(1, _nowhere)


async def _nowhere(message: bytes) -> None:
    del message


@dataclass
class FakeCampus:
    headquarters: Headquarters
    tunnels: FakeTunnels = field(default_factory=FakeTunnels)
    waiting: Waiting = field(default_factory=Waiting)

    @property
    def state(self) -> Any:
        return self.headquarters.state

    async def lead(
        self, place: Place = Socket.LAB, hold_s: float = 20.0, gone: Callable[[], bool] = lambda: False
    ) -> Any:
        return await lead(cast(Campus, self), JOB, place, hold_s=hold_s, gone=gone)

    def says(self, *, ready: bool, no_ssh: str = "") -> None:
        note = SessionNote(run_id=RunId("job-e1"), ready=ready, no_ssh=no_ssh)
        self.headquarters.engine.note_sessions(self.headquarters.now_s, NodeId("alpha"), (note,))


@pytest.fixture
def campus() -> FakeCampus:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits(spec=a_session())
    return FakeCampus(headquarters)


async def test_who_comes_while_it_starts_is_led_on_as_soon_as_it_runs(campus: FakeCampus) -> None:
    asked = asyncio.create_task(campus.lead())
    await asyncio.sleep(0.15)
    assert not asked.done()
    assert campus.waiting.all == 1
    campus.headquarters.started()
    led = await asked
    assert isinstance(led.stream, Stream)
    assert campus.tunnels.asked == [(NodeId("alpha"), RunId("job-e1"))]
    assert campus.waiting.all == 0


async def test_who_waited_for_as_long_as_anybody_may_is_told_where_it_is(campus: FakeCampus) -> None:
    with pytest.raises(ApiError) as told:
        await campus.lead(hold_s=0.1)
    assert (told.value.status_code, told.value.problem.code) == (503, "session_away")
    assert "it starts on alpha" in told.value.problem.detail


async def test_a_guest_that_stands_still_for_a_save_is_waited_for(campus: FakeCampus) -> None:
    campus.headquarters.started()
    campus.says(ready=True)
    campus.tunnels.why = f"{StreamRefused.MOVING}it is being saved whole"
    asked = asyncio.create_task(campus.lead())
    await asyncio.sleep(0.25)
    assert not asked.done()
    campus.tunnels.why = ""
    await asked


async def test_a_server_that_is_not_up_yet_is_waited_for_and_a_port_is_not(campus: FakeCampus) -> None:
    campus.headquarters.started()
    campus.tunnels.why = "nobody listens"
    with pytest.raises(ApiError, match="nobody listens") as refused:
        await campus.lead(Port(6006))
    assert "gpunion logs" in refused.value.problem.next_step
    assert "{" not in refused.value.problem.next_step
    asked = asyncio.create_task(campus.lead())
    await asyncio.sleep(0.15)
    assert not asked.done()
    campus.tunnels.why = ""
    await asked
    assert UNANSWERED_LIMIT_S > 0


async def test_nobody_waits_for_an_sshd_that_the_guest_does_not_have(campus: FakeCampus) -> None:
    campus.headquarters.started()
    campus.tunnels.why = "the guest has no ssh.sock"
    asked = asyncio.create_task(campus.lead(Socket.SSH))
    await asyncio.sleep(0.15)
    assert not asked.done()  # it may be starting
    campus.says(ready=True, no_ssh="there is no sshd in this environment")
    with pytest.raises(ApiError, match="there is no sshd in this environment") as told:
        await asked
    assert told.value.problem.code == "no_ssh"


async def test_one_that_is_over_is_waited_for_by_nobody(campus: FakeCampus) -> None:
    campus.headquarters.started()
    campus.headquarters.ended("job-e1", EndReason.FINISHED, exit_code=0)
    with pytest.raises(ApiError) as told:
        await campus.lead()
    assert (told.value.status_code, told.value.problem.code) == (410, "session_over")


async def test_who_has_left_is_waited_for_no_more(campus: FakeCampus) -> None:
    with pytest.raises(ApiError):
        await campus.lead(gone=lambda: True)
    assert campus.waiting.all == 0


async def test_so_many_wait_for_one_session_and_no_more(campus: FakeCampus) -> None:
    waiting = [asyncio.create_task(campus.lead()) for _ in range(HELD_OF_ONE_MAX)]
    await asyncio.sleep(0.05)
    with pytest.raises(ApiError, match="wait for this session already"):
        await campus.lead()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert campus.waiting.all == 0


async def test_of_those_that_wait_for_one_socket_one_looks_and_all_are_led_on(campus: FakeCampus) -> None:
    campus.headquarters.started()
    campus.tunnels.why = "nobody listens"
    asked = [asyncio.create_task(campus.lead()) for _ in range(20)]
    async with asyncio.timeout(20):
        while len(campus.tunnels.asked) < 24:  # each once, then one of them
            await asyncio.sleep(0)
        looked, waited = len(campus.tunnels.asked), asyncio.get_running_loop().time()
        while len(campus.tunnels.asked) < looked + 3:
            await asyncio.sleep(0)
    assert asyncio.get_running_loop().time() - waited > 2 * LOOK_S
    asked[0].cancel()  # whoever it was: another one goes on looking
    campus.tunnels.why = ""
    found = await asyncio.gather(*asked[1:])
    assert all(led.stream for led in found)
    assert campus.waiting.looking == {}
