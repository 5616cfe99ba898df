"""What raises before it is committed is set aside: the loop goes on, and does not meet it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.memory_database import Disk, MemoryStore
from gpunion.coordinator.loop.answers import NotAccepting, NotHandled
from gpunion.coordinator.loop.connections import Line
from gpunion.coordinator.services import Campus
from gpunion.domain.ids import JobId
from gpunion.domain.nodes.trust import NodeAccepted
from gpunion.domain.protocol.aside import SetAside
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    EventSetAside,
    JobSubmitted,
    NodeJoined,
    NodeReported,
    TimerFired,
)
from gpunion.domain.protocol.frames import ReportFrame
from gpunion.domain.protocol.reports import NodePaused
from gpunion.domain.protocol.timers import ReplanDue
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.engine import CoordinatorEngine
from tests.unit.coordinator.loop.test_loop import ALPHA, JOB, Time, hello, running, submitted, until

Faulty = Callable[[CoordinatorEvent], bool]
PAUSED = ReportFrame(seq=1, ack=0, sent_s=0.0, report=NodePaused())


class FaultyEngine(CoordinatorEngine):
    faulty: Faulty

    def _decide(self, draft: Draft, event: CoordinatorEvent, plan: bool = True) -> None:
        super()._decide(draft, event, plan)
        if self.faulty(event):
            raise KeyError("no such thing")


class UnwritableStore(MemoryStore):
    """A decision that no row can be made of."""

    async def commit(self, commit: Commit, *, term: int) -> int:
        if isinstance(commit.event, JobSubmitted) and commit.event.job_id == JOB:
            raise ValueError("not a finite number")
        return await super().commit(commit, term=term)


def fails_over(campus: Campus, faulty: Faulty) -> None:
    old = campus.station.engine
    engine = FaultyEngine(state=old.state, policies=old.policies, timing=old.timing, timers=old.timers)
    engine.faulty = faulty
    campus.station.engine = engine


def of(kind: Any) -> Faulty:
    return lambda event: isinstance(event, kind)


async def connected(campus: Campus) -> Line:
    line = Line(ALPHA)
    campus.switchboard.take(line)
    await campus.loop.deliver(line, hello())
    list(campus.station.outgoing(campus.clock.now_s(), ALPHA))
    return line


def kept(disk: Disk) -> list[SetAside]:
    return [record for record in disk.records.values() if isinstance(record, SetAside)]


async def test_who_asked_for_what_cannot_be_handled_is_told_so_and_others_are_served(tmp_path: Path) -> None:
    async with running(tmp_path) as (campus, store, task):
        fails_over(campus, lambda event: isinstance(event, JobSubmitted) and event.job_id == JOB)
        with pytest.raises(NotHandled, match="KeyError: 'no such thing'"):
            await campus.loop.post(submitted())
        await campus.loop.post(submitted(JobId("job-2")))
        assert set(campus.state.jobs) == {"job-2"}
        assert campus.ledger.counters["set_aside"] == 1
        assert not task.done()
        [one] = kept(store.disk)
        assert (one.what, one.subject) == ("JobSubmitted", JOB)


async def test_a_report_that_cannot_be_handled_is_taken_and_not_met_again_after_a_restart(
    tmp_path: Path,
) -> None:
    disk = Disk()
    async with running(tmp_path, disk) as (campus, _, task):
        line = await connected(campus)
        fails_over(campus, of(NodeReported))
        await campus.loop.deliver(line, PAUSED)
        assert campus.state.nodes[ALPHA].isolated_because
        assert not task.done()
    async with running(tmp_path, disk) as (campus, _, task):
        fails_over(campus, of(NodeReported))
        line = await connected(campus)
        assert campus.station.links[ALPHA].reports.last_seq == 1
        await campus.loop.deliver(line, PAUSED)  # again, as one that was not acknowledged
        assert campus.state.nodes[ALPHA].isolated_because
        assert "set_aside" not in campus.ledger.counters
        await campus.loop.post(NodeAccepted(node_id=ALPHA, by="admin"))
        assert not campus.state.nodes[ALPHA].isolated_because
        assert not task.done()


async def test_a_timer_that_cannot_be_handled_is_put_off_also_over_a_restart(tmp_path: Path) -> None:
    disk, time = Disk(), Time()
    disk.timers[ReplanDue()] = 0.0
    async with running(tmp_path, disk, time) as (campus, _, task):
        fails_over(campus, of(TimerFired))
        await until(lambda: bool(kept(disk)))
        assert disk.timers[ReplanDue()] > campus.clock.now_s()
        assert not task.done()
    async with running(tmp_path, disk, time) as (campus, _, task):
        await campus.loop.post(submitted())
        assert not task.done()
        assert [one.what for one in kept(disk)] == ["timer replan"]


async def test_a_hello_that_cannot_be_handled_is_not_welcomed(tmp_path: Path) -> None:
    async with running(tmp_path) as (campus, _, task):
        fails_over(campus, of(NodeJoined))
        line = Line(ALPHA)
        campus.switchboard.take(line)
        with pytest.raises(NotHandled):
            await campus.loop.deliver(line, hello())
        assert list(campus.station.outgoing(campus.clock.now_s(), ALPHA)) == []
        assert not task.done()


async def test_a_decision_that_cannot_be_written_is_set_aside_too(tmp_path: Path) -> None:
    async with running(tmp_path, make_store=UnwritableStore) as (campus, store, task):
        with pytest.raises(NotHandled, match="not a finite number"):
            await campus.loop.post(submitted())
        await campus.loop.post(submitted(JobId("job-2")))
        assert set(campus.state.jobs) == {"job-2"}
        assert [one.because for one in kept(store.disk)] == ["ValueError: not a finite number"]
        assert not task.done()


async def test_what_cannot_even_be_set_aside_ends_the_loop(tmp_path: Path) -> None:
    async with running(tmp_path) as (campus, _, task):
        fails_over(campus, of((JobSubmitted, EventSetAside)))
        with pytest.raises(NotAccepting):
            await campus.loop.post(submitted())
        with pytest.raises(KeyError):
            await task
