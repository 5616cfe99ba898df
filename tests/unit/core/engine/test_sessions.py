"""Sessions in the coordinator's engine: names, where one is found, and when nobody works in one any more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.session import Session, SessionEndAsked, SessionKind, is_session_name
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.frames import SessionNote
from gpunion.domain.protocol.orders import EndSession, StartRun, StopRun
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.sessions import END_LIMIT_S, Away, Here, Over, find, idle_news, reach
from tests.builders.headquarters import Headquarters
from tests.builders.values import TIMING, a_spec, facts, orders

HOUR_S = 3600.0


def a_session(name: str = "course", idle_end_s: float | None = None):
    session = Session(kind=SessionKind.NOTEBOOK, idle_end_s=idle_end_s)
    return replace(a_spec(), name=name, session=session)


def with_session(idle_end_s: float | None = None) -> Headquarters:
    campus = Headquarters()
    campus.joins("alpha")
    campus.submits(spec=a_session(idle_end_s=idle_end_s))
    campus.started()
    return campus


def is_idle(campus: Headquarters, idle_s: float):
    """A heartbeat that says so; what follows from it."""
    note = SessionNote(run_id=RunId("job-e1"), ready=True, idle_s=idle_s)
    campus.engine.note_sessions(campus.now_s, NodeId("alpha"), (note,))
    news = idle_news(campus.state, campus.now_s, NodeId("alpha"), TIMING)
    return [campus.hears(one) for one in news]


def reasons_of(decisions) -> list[Why]:
    return [reason.why for decision in decisions for reason in decision.reasons]


def test_its_machine_is_told_what_it_is_and_its_token() -> None:
    campus = Headquarters()
    decision = campus.joins("alpha")
    decision = campus.submits(spec=a_session())
    (start,) = (order for _, order in orders(decision) if isinstance(order, StartRun))
    assert start.session is not None
    assert (start.session.kind, start.session.name) == (SessionKind.NOTEBOOK, "course")


def test_two_that_live_do_not_have_one_name_and_a_later_one_may() -> None:
    campus = with_session()
    decision = campus.submits("other", a_session())
    assert [reason.why for reason in decision.reasons] == [Why.SESSION_EXISTS]
    assert JobId("other") not in campus.state.jobs
    campus.stops()
    campus.ended("job-e1", EndReason.STOPPED)
    campus.submits("other", a_session())
    found = find(campus.state, "course")
    assert found is not None
    assert found.id == "other"


def test_an_owner_who_forbids_sessions_gets_jobs_all_the_same() -> None:
    campus = Headquarters()
    campus.joins("alpha", of=facts(terms=Terms(sessions=False)))
    campus.submits("one", a_session())
    (verdict,) = campus.engine.explain(campus.now_s, JobId("one"))
    assert verdict.refusal is not None
    assert verdict.refusal.why is Why.NO_SESSIONS_HERE
    placed = campus.submits("two")
    assert any(isinstance(order, StartRun) for _, order in orders(placed))


def test_who_asks_finds_it_waits_for_it_or_hears_that_it_is_over() -> None:
    campus = Headquarters()
    campus.submits(spec=a_session())
    assert JobId("job") not in campus.state.jobs or isinstance(reach(campus.state, campus.job()), Away)
    campus.joins("alpha")
    if JobId("job") not in campus.state.jobs:
        campus.submits(spec=a_session())
    assert isinstance(reach(campus.state, campus.job()), Away)  # it starts
    campus.started()
    assert reach(campus.state, campus.job()) == Here(node_id=NodeId("alpha"), run_id=RunId("job-e1"))
    campus.stops()
    assert isinstance(reach(campus.state, campus.job()), Over)


def test_who_works_in_nothing_is_warned_once_and_then_it_is_asked_to_end() -> None:
    campus = with_session(idle_end_s=HOUR_S)
    assert is_idle(campus, 10.0) == []
    assert reasons_of(is_idle(campus, HOUR_S - 300)) == [Why.SESSION_IDLE]
    assert is_idle(campus, HOUR_S - 200) == []
    (decision,) = is_idle(campus, HOUR_S + 1)
    assert [reason.why for reason in decision.reasons] == [Why.SESSION_IDLE_END]
    assert [type(order) for _, order in orders(decision)] == [EndSession]
    assert is_idle(campus, HOUR_S + 20) == []
    assert campus.job().phase is JobPhase.RUNNING


def test_who_comes_back_in_time_keeps_it_and_is_warned_anew() -> None:
    campus = with_session(idle_end_s=HOUR_S)
    is_idle(campus, HOUR_S - 300)
    assert reasons_of(is_idle(campus, 1.0)) == []
    assert campus.run().idle_told is False
    assert reasons_of(is_idle(campus, HOUR_S - 100)) == [Why.SESSION_IDLE]


def test_a_program_that_does_not_end_is_stopped_after_a_while() -> None:
    campus = with_session(idle_end_s=HOUR_S)
    is_idle(campus, HOUR_S)
    campus.later(END_LIMIT_S + 1)
    (decision,) = is_idle(campus, HOUR_S + END_LIMIT_S)
    assert Why.SESSION_DOES_NOT_END in [reason.why for reason in decision.reasons]
    assert [type(order) for _, order in orders(decision)] == [StopRun]


def test_its_user_ends_it_and_what_never_began_is_cancelled() -> None:
    campus = with_session()
    decision = campus.hears(SessionEndAsked(job_id=JobId("job"), by="ada"))
    assert [type(order) for _, order in orders(decision)] == [EndSession]
    assert orders(campus.hears(SessionEndAsked(job_id=JobId("job"), by="ada"))) == []
    waiting = Headquarters()
    waiting.joins("alpha")
    waiting.submits(spec=a_session())
    waiting.hears(SessionEndAsked(job_id=JobId("job"), by="ada"))
    assert waiting.job().phase in (JobPhase.STOPPING, JobPhase.CANCELLED)


@given(st.lists(st.tuples(st.floats(0, 4 * HOUR_S), st.floats(0, HOUR_S)), max_size=12))
def test_whatever_a_guest_says_it_is_asked_to_end_once_and_never_before_its_time(
    said: list[tuple[float, float]],
) -> None:
    campus = with_session(idle_end_s=HOUR_S)
    ended = 0
    for idle_s, later_s in said:
        for decision in is_idle(campus, idle_s):
            asked = [order for _, order in orders(decision) if isinstance(order, EndSession)]
            ended += len(asked)
            assert not asked or idle_s >= HOUR_S
        campus.later(later_s)
    assert ended <= 1


@pytest.mark.parametrize("name", ["a", "course", "my-course-2", "x" * 40])
def test_a_label_of_a_host_is_a_name(name: str) -> None:
    assert is_session_name(name)


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "a_b", "x" * 41, "a b", "ä", "a\n"])
def test_anything_else_is_none(name: str) -> None:
    assert not is_session_name(name)
