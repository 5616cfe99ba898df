"""How far users' programs are believed: how many are remembered, and what is thought of one nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.profile import RELIABILITIES_MOST, Reliability, program_of
from gpunion.engine.coordinator.learned_history import Memories
from gpunion.engine.coordinator.windows import reliability
from tests.builders.campus import Campus
from tests.builders.values import a_spec


def a_reliability(place: int, *, user: str = "ann", rho: float = 1.0, as_of_s: float = 0.0) -> Reliability:
    return Reliability(id=str(place), user=user, program=f"p{place}", rho=rho, as_of_s=as_of_s)


def test_who_was_judged_longest_ago_is_forgotten_where_all_places_are_taken() -> None:
    memories = Memories()
    for place in range(RELIABILITIES_MOST):
        assert memories.place_for_another() == str(place)
        memories.put(a_reliability(place, as_of_s=1000.0 - place % 7, user=f"user-{place % 40}"))
    oldest = memories.place_for_another()
    assert memories.reliabilities[oldest].as_of_s == 994.0
    former = memories.reliabilities[oldest]
    memories.put(Reliability(id=oldest, user="bob", program="new", as_of_s=2000.0))
    assert former.program not in memories.programs_of(former.user)
    assert list(memories.programs_of("bob")) == ["new"]
    assert len(memories.reliabilities) == RELIABILITIES_MOST


def test_what_was_only_thought_leaves_no_trace() -> None:
    memories = Memories()
    known = a_reliability(0)
    memories.put(known)
    other = a_reliability(1, user="bob")
    memories.put(other)
    memories.take_back(other)
    memories.put(replace(known, user="bob"))
    memories.put(known)
    assert memories.programs_of("bob") == {}
    assert memories.programs_of("ann") == {"p0": known}
    assert memories.records() == (known,)


def test_a_program_nobody_knows_is_believed_as_its_user_is_with_others() -> None:
    campus = Campus()
    campus.submits("job", a_spec())
    state = campus.station.engine.state
    job = next(iter(state.jobs.values()))
    assert reliability.rho(state.memories, job) == 1.0
    for place, rho in enumerate((0.2, 0.6)):
        state.put(a_reliability(place, user=job.spec.owner, rho=rho))
    assert reliability.rho(state.memories, job) == pytest.approx(0.4)
    program = program_of(job.spec.image, job.spec.command)
    state.put(Reliability(id="2", user=job.spec.owner, program=program, rho=0.9))
    assert reliability.rho(state.memories, job) == 0.9
