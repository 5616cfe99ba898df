"""Random days on which owners take single GPUs and guests are parked meanwhile: nobody computes on an owner's
GPU, nobody who stands still makes a step, those who are dumped there go on from there, and every job ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from gpunion.domain.jobs.guest import Parking
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.withheld import GpuPhase
from gpunion.domain.protocol.events import OwnerReclaimed
from gpunion.domain.system_tier import SystemAbility
from gpunion.engine.agent.parked.parking import PATIENCE_S
from tests.builders import Machine, facts
from tests.property.core.test_campus import NODES, a_day
from tests.property.core.test_per_gpu_days import ABOUT_GPUS, GPUS, GpuCampus, GpuDay
from tests.searching import FEW

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

PARKS = (True, False, None)  # it works, it does not, no word comes of it
DUMPS = SystemAbility(able=True, why_not="", kind="any")


class ParkedDay(GpuDay):
    def happens(self, what: str, number: int) -> None:
        super(GpuDay, self).happens(what, number)
        for machine in self.campus.machines.values():
            the_gpu_is_the_owners(machine)

    def driver(self, machine: Machine, number: int) -> None:
        machine.parks = PARKS[number % 3]

    def dumper(self, machine: Machine, number: int) -> None:
        machine.dumps = PARKS[number // 3 % 3]

    def visit(self, machine: Machine, number: int) -> None:
        """For so long that a guest loses its place, nearly."""
        self.campus.advance(PATIENCE_S - 20.0 + number % 40)

    def peace(self) -> None:
        for machine in self.campus.machines.values():
            machine.parks = machine.dumps = True
        super().peace()


def the_gpu_is_the_owners(machine: Machine) -> None:
    """Invariants 1 and 5: from its deadline on, and once it was said to be free, nobody computes on it."""
    state, now_s = machine.station.engine.state, machine.campus.now_s
    over = {
        gpu.index
        for gpu in state.holding.gpus
        if gpu.phase is GpuPhase.RECLAIMED or (gpu.deadline_s is not None and now_s >= gpu.deadline_s)
    }
    for process in machine.living():
        run = process.order.run_id
        if process.frozen_s is None:
            assert not over & set(process.order.grant.gpu_indices), f"{run} computes on an owner's GPU"
        elif machine.running and run in state.guests:
            assert state.guests[run].parking is not None, f"{run} is frozen and nobody knows"
    for guest in state.guests.values():
        if machine.running and guest.living and guest.parking is Parking.PARKED:
            process = machine.processes[guest.run_id]
            assert process.frozen_s is not None or not process.alive, f"{guest.run_id} runs though parked"


def lives_through(day: list[tuple[str, int]], *, visited: bool = False) -> None:
    """`visited`: the day begins with every owner at their own GPUs, and their guests parked."""
    campus = GpuCampus()
    for index, node in enumerate(NODES):
        usual = facts(lab=node, speed=1.0 + index, gpus=GPUS)
        system = DUMPS if index else usual.system
        terms = replace(usual.terms, park=True)
        campus.adds(node, replace(usual, parks=True, terms=terms, system=system))
    doings = ParkedDay(campus, 0)
    doings.happens("submit", 1)
    doings.happens("submit", 3)
    if visited:
        campus.advance(5.0)
        for machine in campus.machines.values():
            machine.dumps = PARKS[day[0][1] % 3]
            machine.owner(OwnerReclaimed(notice_s=10.0, gpus=tuple(range(GPUS))))
    for what, number in day:
        doings.happens(what, number)
        doings.happens("time", number // 7)
    doings.peace()
    campus.advance(2 * campus.timing.fence_s())
    jobs = campus.station.engine.state.jobs.values()
    assert {job.id: job.phase for job in jobs if not job.phase.over} == {}
    assert all(job.phase is not JobPhase.FAILED for job in jobs)


@FEW
@given(day=a_day((*ABOUT_GPUS, "driver", "reclaim", "kill", "exit")))
def test_whoever_is_parked_while_owners_come_and_go_every_job_ends(day: list[tuple[str, int]]) -> None:
    lives_through(day)


@FEW
@given(day=a_day((*ABOUT_GPUS, "driver", "crash", "cut", "hang_up", "coordinator"), most=40))
def test_whoever_crashes_while_guests_are_parked_every_job_ends(day: list[tuple[str, int]]) -> None:
    lives_through(day)


WHILE_PARKED = (
    "time",
    "dumper",
    "visit",
    "reclaim",
    "reclaim",
    "resume_gpu",
    "resume",
    "crash",
    "coordinator",
    "cut",
)


@FEW
@given(day=a_day(WHILE_PARKED))
def test_whoever_wants_those_gone_that_are_parked_every_job_ends(day: list[tuple[str, int]]) -> None:
    lives_through(day, visited=True)
