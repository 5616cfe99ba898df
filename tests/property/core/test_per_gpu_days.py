"""Random days on which owners also speak of single GPUs: nobody runs on one after its deadline, nobody starts
on one that is not lent, and every job ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause
from gpunion.domain.protocol.events import OwnerPaused, OwnerReclaimed, OwnerResumed
from gpunion.domain.protocol.orders import StartRun
from tests.builders import Machine, facts
from tests.property.core.test_campus import NODES, Day, WatchedCampus, a_day
from tests.searching import FEW

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

GPUS = 2
CAUSES = (HoldCause.OWNER, HoldCause.OWN_WORK, HoldCause.SICK)


class GpuCampus(WatchedCampus):
    def about_to_start(self, machine: Machine, order: StartRun) -> None:
        """Invariants 2 and 5, on the truth: the GPU is lent, and nobody is on it."""
        super().about_to_start(machine, order)
        withheld = {gpu.index for gpu in machine.station.engine.state.holding.gpus}
        assert not withheld & set(order.grant.gpu_indices), f"{order.run_id} starts on a GPU that is not lent"
        taken = {index for process in machine.living() for index in process.order.grant.gpu_indices}
        assert not taken & set(order.grant.gpu_indices), f"{order.run_id} starts on a GPU that is taken"


class GpuDay(Day):
    def happens(self, what: str, number: int) -> None:
        super().happens(what, number)
        for machine in self.campus.machines.values():
            nobody_after_the_deadline(machine)

    def reclaim_gpu(self, machine: Machine, number: int) -> None:
        notice_s, cause = (0.0, 3.0, 10.0, 40.0)[number % 4], CAUSES[number % 3]
        word = OwnerReclaimed(notice_s=notice_s, gpus=self._gpus(number), cause=cause, detail="seen")
        self._owner(machine, word)

    def pause_gpu(self, machine: Machine, number: int) -> None:
        self._owner(machine, OwnerPaused(gpus=self._gpus(number)))

    def resume_gpu(self, machine: Machine, number: int) -> None:
        self._owner(machine, OwnerResumed(gpus=self._gpus(number), cause=CAUSES[number % 2]))

    def peace(self) -> None:
        for machine in self.campus.machines.values():
            if not machine.running:
                machine.restarts()
            machine.linked = True
            machine.owner(OwnerResumed(gpus=tuple(range(GPUS))))
        super().peace()

    def _gpus(self, number: int) -> tuple[int, ...]:
        return ((0,), (1,), (0, 1))[number % 3]


def nobody_after_the_deadline(machine: Machine) -> None:
    """Invariant 1 for single GPUs, judged by what the owner was promised."""
    now_s = machine.campus.now_s
    over = {
        gpu.index
        for gpu in machine.station.engine.state.holding.gpus
        if gpu.phase is GpuPhase.RECLAIMED or (gpu.deadline_s is not None and now_s >= gpu.deadline_s)
    }
    for process in machine.living():
        assert not over & set(process.order.grant.gpu_indices), f"{process.order.run_id} is on an owner's GPU"


def lives_through(day: list[tuple[str, int]], seed: int = 0) -> None:
    campus = GpuCampus()
    for index, node in enumerate(NODES):
        campus.adds(node, facts(lab=node, speed=1.0 + index, gpus=GPUS))
    doings = GpuDay(campus, seed)
    doings.happens("submit", 1)
    doings.happens("submit", 3)
    for what, number in day:
        doings.happens(what, number)
        doings.happens("time", number // 7)
    doings.peace()
    campus.advance(2 * campus.timing.fence_s())  # the last words arrive, and lost ones are said again
    jobs = campus.station.engine.state.jobs.values()
    assert {job.id: job.phase for job in jobs if not job.phase.over} == {}
    assert all(job.phase is not JobPhase.FAILED for job in jobs)
    for machine in campus.machines.values():
        if machine.station.engine.state.holding.owner_state != "left":
            assert campus.node(machine.node_id).withheld == ()


ABOUT_GPUS = ("time", "submit", "reclaim_gpu", "reclaim_gpu", "pause_gpu", "resume_gpu", "resume")


@FEW
@given(day=a_day((*ABOUT_GPUS, "reclaim", "pause", "kill", "manners", "exit")))
def test_whatever_owners_say_of_single_gpus_every_job_ends(day: list[tuple[str, int]]) -> None:
    lives_through(day)


@FEW
@given(day=a_day((*ABOUT_GPUS, "cut", "hang_up", "weather", "echo")), seed=st.integers(0, 99))
def test_whatever_the_wires_do_to_words_about_gpus_every_job_ends(
    day: list[tuple[str, int]], seed: int
) -> None:
    lives_through(day, seed)


@FEW
@given(day=a_day((*ABOUT_GPUS, "crash", "forget", "coordinator", "leave"), most=40))
def test_whoever_crashes_while_gpus_are_taken_back_every_job_ends(day: list[tuple[str, int]]) -> None:
    lives_through(day)
