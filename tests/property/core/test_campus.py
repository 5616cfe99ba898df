"""Random days on a small campus: owners, users, wires and machines do as they like, and the rules hold.

After every commit: the audit's invariants, no trace of what was only thought, memory that can be rebuilt from
its records and then decides the same, epochs and durable steps that only go forward. At every start: no
living guest of an older epoch. At the end of every day, once everybody is left in peace: every job is over.
"""

from __future__ import annotations

from copy import deepcopy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.protocol.commit import Commit, InboxMark
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    NodeReported,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
)
from gpunion.domain.protocol.reports import (
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    RunEnded,
    RunStarted,
)
from gpunion.engine.coordinator.state import CampusState
from tests.builders import Campus, Machine, a_spec, at_once, facts
from tests.searching import FEW

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

NODES = ("alpha", "beta", "gamma")
JOBS = 3
WORK_S = 60.0
PEACE_S = 4000.0

OwnWords = RunStarted | RunEnded | CheckpointCaptured | CheckpointDurable | CheckpointFailed


class WatchedCampus(Campus):
    """Looks twice at every decision before it is made."""

    def decide(self, event: CoordinatorEvent, mark: InboxMark | None = None) -> Commit:
        drafted = self._drafted(event)
        before = deepcopy(self.station.engine.state)
        self.station.decide(self.now_s, event, mark)
        assert self.station.engine.state == before, f"thinking about {event} left a trace"
        commit = super().decide(event, mark)
        state = self.station.engine.state
        assert state == drafted, f"{event} was applied as something else than was drafted"
        rebuilt = CampusState.from_records(state.records())
        rebuilt.progress = state.progress
        assert rebuilt == state
        return commit

    def _drafted(self, event: CoordinatorEvent) -> CampusState:
        engine = self.station.engine
        draft = engine._draft(self.now_s)
        engine._decide(draft, event)
        drafted = deepcopy(engine.state)
        draft.finish()
        return drafted


def one_living_guest_of_the_current_epoch(campus: Campus) -> None:
    for job in campus.station.engine.state.jobs.values():
        living = [
            process.order.run_id
            for machine in campus.machines.values()
            for process in machine.living()
            if process.order.job_id == job.id and process.order.epoch == job.epoch
        ]
        assert len(living) <= 1, living


class Day:
    """What can happen. Every number drawn means something, so that no example is thrown away."""

    def __init__(self, campus: Campus, seed: int) -> None:
        self.campus = campus
        self.random = Random(seed)
        self.jobs = 0

    def happens(self, what: str, number: int) -> None:
        machine = self.campus.machines[NodeId(NODES[number % len(NODES)])]
        getattr(self, what)(machine, number)
        self.campus.settle()
        one_living_guest_of_the_current_epoch(self.campus)

    def time(self, machine: Machine, number: int) -> None:
        self.campus.advance(0.5 + number % 20)

    def submit(self, machine: Machine, number: int) -> None:
        if self.jobs < JOBS and self.campus.up:
            self.jobs += 1
            self.campus.submits(f"job{self.jobs}", a_spec(gpus=number % 2, expected_s=WORK_S))

    def stop(self, machine: Machine, number: int) -> None:
        if self.jobs and self.campus.up:
            self.campus.stops(f"job{1 + number % self.jobs}")

    def reclaim(self, machine: Machine, number: int) -> None:
        self._owner(machine, OwnerReclaimed(notice_s=(0.0, 3.0, 10.0, 40.0)[number % 4]))

    def pause(self, machine: Machine, number: int) -> None:
        self._owner(machine, OwnerPaused())

    def resume(self, machine: Machine, number: int) -> None:
        self._owner(machine, OwnerResumed())

    def kill(self, machine: Machine, number: int) -> None:
        self._owner(machine, OwnerKilled())

    def leave(self, machine: Machine, number: int) -> None:
        if machine.node_id != NODES[0]:
            self._owner(machine, OwnerReclaimed(notice_s=5.0, leaving=True))

    def cut(self, machine: Machine, number: int) -> None:
        machine.linked = not machine.linked

    def hang_up(self, machine: Machine, number: int) -> None:
        self.campus.hangs_up(machine.node_id)

    def crash(self, machine: Machine, number: int) -> None:
        if machine.running:
            machine.crashes()
        else:
            machine.restarts(killed_meanwhile=self._owner_kills_the_dead(machine, number))

    def forget(self, machine: Machine, number: int) -> None:
        machine.crashes()
        machine.restarts(forgetful=f"life{len(self.campus.commits)}")

    def coordinator(self, machine: Machine, number: int) -> None:
        if self.campus.up:
            self.campus.falls()
        else:
            self.campus.rises()

    def manners(self, machine: Machine, number: int) -> None:
        machine.answers = number % 3 != 0
        machine.polite = number % 2 == 0
        if number % 5 == 0:
            machine.ships = False
        else:
            machine.finishes_shipping()

    def exit(self, machine: Machine, number: int) -> None:
        for process in machine.living()[:1]:
            machine.exits(process.order.run_id, (85, None, 0)[number % 3])

    def weather(self, machine: Machine, number: int) -> None:
        self.campus.fate = self._bad_weather if number % 2 else at_once

    def echo(self, machine: Machine, number: int) -> None:
        """Something a run said before is heard again: it must change nothing."""
        said = [
            commit.event
            for commit in self.campus.commits
            if isinstance(commit.event, NodeReported) and isinstance(commit.event.report, OwnWords)
        ]
        if said and self.campus.up:
            commit = self.campus.decide(said[number % len(said)])
            assert commit.decision.changes == ()

    def _owner(
        self, machine: Machine, word: OwnerReclaimed | OwnerPaused | OwnerResumed | OwnerKilled
    ) -> None:
        if machine.running:
            machine.owner(word)

    def _owner_kills_the_dead(self, machine: Machine, number: int) -> bool:
        if number % 4:
            return False
        for process in machine.living():
            machine.exits(process.order.run_id, None)
        return True

    def _bad_weather(self, now_s: float) -> list[float]:
        dice = self.random.random()
        if dice < 0.15:
            return []
        copies = 2 if dice < 0.3 else 1
        return [now_s + self.random.choice((0.0, 0.1, 1.0, 4.0)) for _ in range(copies)]

    def peace(self) -> None:
        """Everybody is back, owners lend, wires carry, programs behave."""
        campus = self.campus
        campus.fate = at_once
        if not campus.up:
            campus.rises()
        for machine in campus.machines.values():
            machine.linked = machine.answers = True
            if not machine.running:
                machine.restarts()
            machine.finishes_shipping()
            machine.owner(OwnerResumed())
        end_s = campus.now_s + PEACE_S
        while campus.now_s < end_s and not all(
            job.phase.over for job in campus.station.engine.state.jobs.values()
        ):
            campus.advance(20.0)
            one_living_guest_of_the_current_epoch(campus)


def a_day(kinds: tuple[str, ...], most: int = 25) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 999)), min_size=5, max_size=most)


def lives_through(day: list[tuple[str, int]], seed: int = 0) -> Campus:
    campus = WatchedCampus()
    for index, node in enumerate(NODES):
        campus.adds(node, facts(lab=node, speed=1.0 + index))
    doings = Day(campus, seed)
    doings.happens("submit", 1)
    doings.happens("submit", 2)
    for what, number in day:
        doings.happens(what, number)
        doings.happens("time", number // 7)
    doings.peace()
    left = {job.id: job.phase for job in campus.station.engine.state.jobs.values() if not job.phase.over}
    assert left == {}, [reason.sentence() for _, reason in campus.told][-20:]
    assert all(job.phase is not JobPhase.FAILED for job in campus.station.engine.state.jobs.values())
    return campus


@FEW
@given(day=a_day(("time", "submit", "reclaim", "pause", "resume", "kill", "leave", "manners", "exit")))
def test_whatever_owners_do_every_job_ends(day: list[tuple[str, int]]) -> None:
    lives_through(day)


@FEW
@given(day=a_day(("time", "cut", "hang_up", "weather", "reclaim", "resume", "echo")), seed=st.integers(0, 99))
def test_whatever_the_wires_do_every_job_ends(day: list[tuple[str, int]], seed: int) -> None:
    lives_through(day, seed)


@FEW
@given(day=a_day(("time", "crash", "forget", "coordinator", "kill", "resume", "exit")))
def test_whoever_crashes_every_job_ends(day: list[tuple[str, int]]) -> None:
    lives_through(day)


EVERYTHING = tuple(
    name for name in vars(Day) if not name.startswith("_") and name not in ("happens", "peace")
)


@FEW
@given(day=a_day(EVERYTHING, most=40), seed=st.integers(0, 99))
def test_whatever_happens_every_job_ends(day: list[tuple[str, int]], seed: int) -> None:
    lives_through(day, seed)


def test_a_day_can_hold_everything() -> None:
    assert {"time", "submit", "echo", "weather", "leave", "coordinator"} <= set(EVERYTHING)
    campus = lives_through([("time", 19), *((what, 13) for what in EVERYTHING)])
    assert len(campus.commits) > 20
