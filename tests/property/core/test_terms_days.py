"""Random days on which owners also change their terms: nobody starts against them, nobody stays longer than
they let it, and every job ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.domain.jobs.guest import Guest
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.events import (
    DepartureForeseen,
    GuestOverstepped,
    OwnerChangedTerms,
    OwnerReclaimed,
    OwnerResumed,
)
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.resources import GIB
from gpunion.policy.terms.welcome import unwelcome
from tests.builders import Machine, a_grant, a_guest, facts
from tests.property.core.test_campus import NODES, Day, WatchedCampus, a_day
from tests.searching import FEW, QUICK

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

MANY_TERMS = (
    Terms(),
    Terms(notice_s=3.0, deny_labs=("students",)),
    Terms(notice_s=20.0, deny_people=("sam",)),
    Terms(notice_s=0.0, allow_people=("kim",)),
    Terms(notice_s=5.0, max_guests=1, autonomy_s=8.0),
    Terms(notice_s=10.0, cpus=1.0, memory_bytes=GIB, network_bps=1e7),
    Terms(prefer_labs=("students",), vram_bytes=8 * GIB),
)


class TermsCampus(WatchedCampus):
    def about_to_start(self, machine: Machine, order: StartRun) -> None:
        """Invariant 2, on the truth: by the terms on the machine, whatever the coordinator was told."""
        super().about_to_start(machine, order)
        terms = machine.facts.terms
        assert terms.admits(order.lab, order.user), f"{order.run_id} starts against the terms"
        assert len(machine.living()) < terms.max_guests


class TermsDay(Day):
    def happens(self, what: str, number: int) -> None:
        super().happens(what, number)
        for machine in self.campus.machines.values():
            nobody_stays_longer(machine)

    def change_terms(self, machine: Machine, number: int) -> None:
        machine.facts = replace(machine.facts, terms=MANY_TERMS[number % len(MANY_TERMS)])
        if machine.running:
            machine.station.change_facts(machine.facts)
            machine.owner(OwnerChangedTerms(said="a test"))

    def hours_end(self, machine: Machine, number: int) -> None:
        notice_s = (0.0, 3.0, 15.0)[number % 3]
        self._owner(
            machine, OwnerReclaimed(notice_s=notice_s, cause=HoldCause.TERMS, detail="not at this hour")
        )

    def hours_begin(self, machine: Machine, number: int) -> None:
        self._owner(machine, OwnerResumed(cause=HoldCause.TERMS))

    def foretell(self, machine: Machine, number: int) -> None:
        if machine.running:
            at_s = None if number % 3 == 0 else self.campus.now_s + number
            machine.owner(DepartureForeseen(at_s=at_s, because="" if number % 3 else "not at this hour"))

    def when_safe(self, machine: Machine, number: int) -> None:
        self._owner(machine, OwnerReclaimed(notice_s=float(20 + number % 200), when_safe=True))

    def overstep(self, machine: Machine, number: int) -> None:
        for process in machine.living()[: number % 2]:
            if machine.running:
                machine.owner(GuestOverstepped(run_id=process.order.run_id, detail="too much"))

    def peace(self) -> None:
        for machine in self.campus.machines.values():
            if not machine.running:
                machine.restarts()
            machine.linked = True
            self.change_terms(machine, 0)
            machine.owner(DepartureForeseen(at_s=None))
        super().peace()


def nobody_stays_longer(machine: Machine) -> None:
    """Invariant 1 for single guests, judged by what the owner was promised."""
    guests = machine.station.engine.state.guests
    for process in machine.living():
        guest = guests.get(process.order.run_id)
        if machine.running and guest is not None and guest.leave_by_s is not None:
            assert machine.campus.now_s <= guest.leave_by_s, f"{guest.run_id} stays against the terms"


def lives_through(day: list[tuple[str, int]], seed: int = 0) -> None:
    campus = TermsCampus()
    for index, node in enumerate(NODES):
        campus.adds(node, facts(lab=node, speed=1.0 + index, gpus=2))
    doings = TermsDay(campus, seed)
    doings.happens("submit", 1)
    doings.happens("submit", 3)
    for what, number in day:
        doings.happens(what, number)
        doings.happens("time", number // 7)
    doings.peace()
    jobs = campus.station.engine.state.jobs.values()
    left = {job.id: job.phase for job in jobs if not job.phase.over}
    assert left == {}, [reason.sentence() for _, reason in campus.told][-20:]
    assert all(job.phase is not JobPhase.FAILED for job in jobs)
    assert campus.station.engine.state.asked_to_go == {}


OF_TERMS = ("change_terms", "hours_end", "hours_begin", "foretell", "when_safe", "overstep")
OF_OTHERS = ("time", "submit", "reclaim", "resume", "pause", "manners", "exit")
OF_FATE = ("cut", "hang_up", "weather", "crash", "coordinator", "kill")


@settings(FEW, max_examples=25)
@given(day=a_day((*OF_TERMS, *OF_TERMS, *OF_OTHERS, *OF_FATE), most=35), seed=st.integers(0, 99))
def test_whatever_terms_in_any_weather_every_job_ends(day: list[tuple[str, int]], seed: int) -> None:
    lives_through(day, seed)


some_guests = st.lists(
    st.builds(
        lambda n, lab, user, cpus, gib, came: a_guest(
            f"job{n}-e1",
            lab=lab,
            user=user,
            came_s=came,
            grant=replace(a_grant(), cpus=cpus, memory_bytes=gib * GIB),
        ),
        st.integers(0, 50),
        st.sampled_from(("students", "physics")),
        st.sampled_from(("sam", "kim")),
        st.sampled_from((0.5, 1.0, 4.0)),
        st.integers(1, 8),
        st.floats(0, 100),
    ),
    max_size=6,
    unique_by=lambda guest: guest.run_id,
)
some_terms = st.builds(
    Terms,
    max_guests=st.integers(1, 4),
    cpus=st.none() | st.floats(0.5, 8),
    memory_bytes=st.none() | st.integers(GIB, 16 * GIB),
    deny_labs=st.sampled_from(((), ("physics",))),
    allow_people=st.sampled_from(((), ("kim",))),
)


@QUICK
@given(guests=some_guests, terms=some_terms)
def test_who_stays_fits_the_terms_and_nobody_goes_without_need(guests: list[Guest], terms: Terms) -> None:
    going = unwelcome(terms, guests)
    staying = [guest for guest in guests if guest.run_id not in going]
    assert unwelcome(terms, staying) == {}
    assert all(going.values())
    for guest in guests:
        if guest.run_id in going:
            assert unwelcome(terms, [*staying, replace(guest, came_s=1000.0)])
