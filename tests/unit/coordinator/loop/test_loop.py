"""The single writer: committed first, told afterwards, and gone when the store is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.memory_database import Disk, MemoryStore
from gpunion.coordinator.compose import open_campus
from gpunion.coordinator.credentials import JoinRefused
from gpunion.coordinator.loop import loop as loop_module
from gpunion.coordinator.loop.answers import NotAccepting
from gpunion.coordinator.loop.clock import SteadyClock
from gpunion.coordinator.loop.connections import Line
from gpunion.coordinator.loop.health import ASK_AGAIN_S
from gpunion.coordinator.services import Campus
from gpunion.coordinator.settings import Settings
from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import JobPhase, JobSpec
from gpunion.domain.nodes.node import NodeFacts, NodePhase
from gpunion.domain.protocol.events import JobStopAsked, JobSubmitted
from gpunion.domain.protocol.frames import Heartbeat, Hello, LeaseGrant, OrderFrame, ReportFrame, Welcome
from gpunion.domain.protocol.reports import NodePaused
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.engine.coordinator import audit
from gpunion.ports.database import Overtaken, Redeemed, StoreFault, StoreFull

SPEC = JobSpec(name="train", command=("true",), owner="admin")
JOB = JobId("job-1")
ALPHA = NodeId("alpha")


class Time:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: 1000.0, lambda: self.elapsed_s)


@asynccontextmanager
async def running(
    tmp_path: Path,
    disk: Disk | None = None,
    time: Time | None = None,
    make_store: type[MemoryStore] = MemoryStore,
    **settings: Any,
) -> AsyncIterator[tuple[Campus, MemoryStore, asyncio.Task[None]]]:
    store = make_store(disk)
    settings_ = Settings(data_dir=tmp_path, strict_audit=True, **settings)
    campus = await open_campus(settings_, store, (time or Time()).clock())
    task = asyncio.create_task(campus.loop.run())
    try:
        yield campus, store, task
    finally:
        campus.loop.end()
        await asyncio.gather(task, return_exceptions=True)
        await store.close(term=campus.station.term)


def submitted(job_id: JobId = JOB) -> JobSubmitted:
    return JobSubmitted(job_id=job_id, spec=SPEC)


def hello(**changes: Any) -> Hello:
    gpu = Gpu(index=0, model="A100", memory_bytes=40 * GIB)
    capacity = Capacity(gpus=(gpu,), cpus=8.0, memory_bytes=64 * GIB, uplink_bps=1e9)
    defaults: dict[str, Any] = {
        "node_id": ALPHA,
        "incarnation": "i1",
        "facts": NodeFacts(lab="a", capacity=capacity),
        "guests": (),
        "ack": 0,
        "sent_s": 0.0,
    }
    return Hello(**{**defaults, **changes})


def are_left(faults: list[StoreFault], count: int) -> bool:
    return len(faults) == count


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0)


async def test_a_posted_event_is_committed_before_it_is_answered_and_told_after(tmp_path: Path) -> None:
    async with running(tmp_path) as (campus, store, _):
        told: list[tuple[int, int]] = []
        campus.loop.observers.append(lambda _commit, line: told.append((line.seq, len(store.disk.lines))))
        outcome = await campus.loop.post(submitted())
        assert outcome.seq == 1
        assert told == [(1, 1)]
        assert campus.state.jobs[JOB].phase is JobPhase.PENDING
        assert ("Job", JOB) in store.disk.records


async def test_a_passing_fault_of_the_store_is_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "RETRY_PAUSES_S", (0.0, 0.0))
    async with running(tmp_path) as (campus, store, task):
        store.faults = [StoreFault("locked"), StoreFault("locked")]
        await campus.loop.post(submitted())
        assert len(store.disk.lines) == 1
        assert campus.ledger.counters["store_faults"] == 2
        assert not task.done()


@pytest.mark.parametrize("faults", [[Overtaken("another leads")], [StoreFault("locked")] * 3])
async def test_a_fault_that_does_not_pass_ends_the_loop_and_nothing_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: list[StoreFault]
) -> None:
    monkeypatch.setattr(loop_module, "RETRY_PAUSES_S", (0.0, 0.0))
    async with running(tmp_path) as (campus, store, task):
        store.faults = list(faults)
        results = await asyncio.gather(
            campus.loop.post(submitted()), campus.loop.post(submitted(JobId("job-2"))), return_exceptions=True
        )
        assert [type(result) for result in results] == [NotAccepting, NotAccepting]
        with pytest.raises(type(faults[0])):
            await task
        assert campus.state.jobs == {}
        assert store.disk.lines == []
        with pytest.raises(NotAccepting):
            await campus.loop.post(submitted())


async def test_what_a_full_disk_refuses_is_refused_and_nothing_else_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as (campus, store, task):
        line = Line(ALPHA)
        campus.switchboard.take(line)
        await campus.loop.deliver(line, hello())
        list(campus.station.outgoing(campus.clock.now_s(), ALPHA))
        store.faults = [StoreFull("the disk is full")] * 2
        with pytest.raises(StoreFull):
            await campus.loop.post(submitted())
        paused = ReportFrame(seq=1, ack=0, sent_s=0.0, report=NodePaused())
        await campus.loop.deliver(line, paused)
        await campus.loop.deliver(line, Heartbeat(sent_s=0.0, ack=0))
        (grant,) = campus.station.outgoing(campus.clock.now_s(), ALPHA)
        assert isinstance(grant, LeaseGrant)
        assert grant.ack == 0  # so the report comes again
        assert (campus.state.jobs, campus.state.nodes[ALPHA].phase) == ({}, NodePhase.SHARING)
        await campus.loop.deliver(line, paused)
        await campus.loop.post(submitted())
        assert set(campus.state.jobs) == {JOB}
        assert campus.state.nodes[ALPHA].phase is NodePhase.PAUSED
        assert not task.done()


async def test_who_is_not_known_to_the_full_disk_is_not_welcomed_but_asked_to_come_again(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (campus, store, _):
        line = Line(ALPHA)
        campus.switchboard.take(line)
        store.faults = [StoreFull("the disk is full")]
        with pytest.raises(StoreFull):
            await campus.loop.deliver(line, hello())
        assert list(campus.station.outgoing(campus.clock.now_s(), ALPHA)) == []
        await campus.loop.deliver(line, hello())
        assert campus.station.outgoing(campus.clock.now_s(), ALPHA) != []


async def test_no_lease_is_granted_to_a_silent_node_whose_word_cannot_be_written_down(
    tmp_path: Path,
) -> None:
    """It would outlive the run's being given up."""
    time = Time()
    async with running(tmp_path, time=time) as (campus, store, _):
        line = Line(ALPHA)
        campus.switchboard.take(line)
        await campus.loop.deliver(line, hello())
        list(campus.station.outgoing(campus.clock.now_s(), ALPHA))
        time.elapsed_s += campus.station.leases.silence_s
        await campus.loop.post(JobStopAsked(job_id=JOB))
        await until(lambda: campus.state.nodes[ALPHA].phase is NodePhase.SILENT)
        store.faults = [StoreFull("the disk is full")]
        await campus.loop.deliver(line, Heartbeat(sent_s=0.0, ack=0))
        assert list(campus.station.outgoing(campus.clock.now_s(), ALPHA)) == []
        await campus.loop.deliver(line, Heartbeat(sent_s=0.0, ack=0))
        (grant,) = campus.station.outgoing(campus.clock.now_s(), ALPHA)
        assert isinstance(grant, LeaseGrant)


async def test_what_is_due_waits_a_second_for_room_and_then_happens(tmp_path: Path) -> None:
    time = Time()
    async with running(tmp_path, time=time) as (campus, store, task):
        line = Line(ALPHA)
        campus.switchboard.take(line)
        await campus.loop.deliver(line, hello())
        store.faults = [StoreFull("the disk is full")] * 2
        time.elapsed_s += campus.station.leases.silence_s
        nobody, nothing = Line(NodeId("nobody")), Heartbeat(sent_s=0.0, ack=0)
        for left in (1, 0):
            await campus.loop.deliver(nobody, nothing)  # which wakes the loop and is all it does
            await until(partial(are_left, store.faults, left))
            await campus.loop.deliver(nobody, nothing)
            assert len(store.faults) == left
            assert campus.state.nodes[ALPHA].phase is NodePhase.SHARING
            time.elapsed_s += ASK_AGAIN_S
        await campus.loop.deliver(nobody, nothing)
        await until(lambda: campus.state.nodes[ALPHA].phase is NodePhase.SILENT)
        assert not task.done()


async def test_a_broken_invariant_is_shown_and_in_tests_ends_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    violation = audit.Violation(invariant=4, subject="job-1", what="went back")
    monkeypatch.setattr(audit, "check", lambda _state, _decision: [violation])
    async with running(tmp_path) as (campus, _, task):
        await asyncio.gather(campus.loop.post(submitted()), return_exceptions=True)
        with pytest.raises(audit.BrokenInvariant):
            await task
        assert [(found.invariant, found.detail) for found in campus.ledger.findings] == [
            ("4", "job-1: went back")
        ]


async def test_a_decision_that_changes_nothing_costs_no_write(tmp_path: Path) -> None:
    async with running(tmp_path) as (campus, _, _):
        await campus.loop.post(submitted())
        before = campus.ledger.counters["commits"]
        outcome = await campus.loop.post(submitted())
        assert outcome.seq == 0
        assert campus.ledger.counters["commits"] == before


async def test_a_node_is_welcomed_granted_and_given_orders(tmp_path: Path) -> None:
    time = Time()
    async with running(tmp_path, time=time) as (campus, store, _):
        line = Line(ALPHA)
        campus.switchboard.take(line)
        await campus.loop.deliver(line, hello())
        await campus.loop.post(submitted())
        assert line.wake.is_set()
        frames = list(campus.station.outgoing(campus.clock.now_s(), ALPHA))
        assert [type(frame) for frame in frames] == [Welcome, OrderFrame]
        assert len(store.disk.orders) == 1
        before = campus.ledger.counters["commits"]
        await campus.loop.deliver(line, Heartbeat(sent_s=0.0, ack=1))
        assert store.disk.orders == {}
        (grant,) = campus.station.outgoing(campus.clock.now_s(), ALPHA)
        assert isinstance(grant, LeaseGrant)
        assert campus.ledger.counters["commits"] == before  # heartbeats cost no write


async def test_a_line_that_was_replaced_is_not_listened_to(tmp_path: Path) -> None:
    async with running(tmp_path) as (campus, _, _):
        old, new = Line(ALPHA), Line(ALPHA)
        campus.switchboard.take(old)
        await campus.loop.deliver(old, hello())
        campus.switchboard.take(new)
        await campus.loop.deliver(old, Heartbeat(sent_s=0.0, ack=0))
        campus.loop.hang_up(old)
        assert campus.ledger.counters["frames.Heartbeat"] == 0
        assert campus.switchboard.connected(ALPHA)


async def test_time_makes_a_node_silent_and_its_word_brings_it_back(tmp_path: Path) -> None:
    time = Time()
    async with running(tmp_path, time=time) as (campus, _, _):
        line = Line(ALPHA)
        campus.switchboard.take(line)
        await campus.loop.deliver(line, hello())
        time.elapsed_s += campus.station.leases.silence_s
        await campus.loop.post(JobStopAsked(job_id=JOB))  # anything that wakes the loop
        await until(lambda: campus.state.nodes[ALPHA].phase is NodePhase.SILENT)
        await campus.loop.deliver(line, Heartbeat(sent_s=0.0, ack=0))
        assert campus.state.nodes[ALPHA].phase is NodePhase.SHARING


async def test_another_coordinator_goes_on_from_the_store_alone(tmp_path: Path) -> None:
    disk, time = Disk(), Time()
    async with running(tmp_path, disk, time) as (campus, _, _):
        line = Line(ALPHA)
        campus.switchboard.take(line)
        await campus.loop.deliver(line, hello())
        await campus.loop.post(submitted())
        state, timers = campus.state, campus.station.timers.items()
    async with running(tmp_path, disk, time) as (campus, _, _):
        await campus.loop.post(JobStopAsked(job_id=JobId("job-unknown")))
        assert campus.station.term == 2
        alpha = replace(state.nodes[ALPHA], unheard=True)  # of this one's nobody
        assert set(campus.state.records()) == {*state.records()} - {state.nodes[ALPHA]} | {alpha}
        assert dict(timers).items() <= dict(campus.station.timers.items()).items()
        assert list(campus.station.links[ALPHA].orders.waiting) == [1]


async def test_a_new_lead_starts_no_earlier_than_what_was_committed(tmp_path: Path) -> None:
    disk = Disk(newest_s=99_999.0)
    async with running(tmp_path, disk) as (campus, _, _):
        assert campus.clock.now_s() == 99_999.0


async def test_a_join_token_expires(tmp_path: Path) -> None:
    time = Time()
    async with running(tmp_path, time=time) as (campus, _, _):
        token = await campus.keyring.make_join_token(campus.clock.now_s() + 3600)
        late = await campus.keyring.make_join_token(campus.clock.now_s() + 3600)
        credential, secret = await campus.keyring.enrol(token, "Alpha", "lab-a")
        assert campus.keyring.who(secret) == credential
        assert credential.name == "alpha"
        time.elapsed_s += 3600
        with pytest.raises(JoinRefused) as caught:
            await campus.keyring.enrol(late, "beta", "")
        assert caught.value.outcome is Redeemed.EXPIRED


async def test_no_id_is_given_twice_also_by_the_next_coordinator_and_each_machine_keeps_its_own(
    tmp_path: Path,
) -> None:
    disk, secrets = Disk(), {}
    for expected in (["alpha", "alpha-2"], ["alpha-3"]):
        async with running(tmp_path, disk) as (campus, _, _):
            for name in expected:
                token = await campus.keyring.make_join_token(campus.clock.now_s() + 60)
                credential, secrets[name] = await campus.keyring.enrol(token, "Alpha", "")
                assert credential.name == name
            for name, secret in secrets.items():
                known = campus.keyring.who(secret)
                assert known is not None
                assert known.name == name


async def test_the_admin_token_of_a_start_that_died_is_taken_over(tmp_path: Path) -> None:
    async with running(tmp_path) as (campus, _, _):
        token = await campus.keyring.bootstrap_admin(tmp_path)
        assert token is not None
        assert (tmp_path / "admin.token").read_text().strip() == token
        assert await campus.keyring.bootstrap_admin(tmp_path) is None
    async with running(tmp_path, Disk()) as (campus, _, _):
        assert await campus.keyring.bootstrap_admin(tmp_path) == token


async def test_an_admin_token_that_was_lost_or_leaked_is_replaced_and_void(tmp_path: Path) -> None:
    async with running(tmp_path) as (campus, _, _):
        lost = await campus.keyring.bootstrap_admin(tmp_path)
        assert lost is not None
        token = await campus.keyring.replace_admin(tmp_path)
        assert (tmp_path / "admin.token").read_text().strip() == token
        assert campus.keyring.who(token) is not None
        assert campus.keyring.who(lost) is None
