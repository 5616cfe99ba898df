"""A running coordinator's memory of its nodes: what it notes, what it learns, what a restart leaves of it."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.lending import Lending, LentSpan
from gpunion.domain.protocol.events import CoordinatorStarted, NodeHeard
from gpunion.domain.protocol.reports import NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.protocol.timers import LessonDue
from gpunion.engine.coordinator.handlers import lending as lessons
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.buckets import DAY_S, HOUR_S
from gpunion.policy.hazard.calibration import HORIZON_S
from gpunion.policy.hazard.profile import Answer
from gpunion.policy.learning import Learning
from gpunion.policy.policies import BASELINE, LIVE, Policies
from gpunion.wire import codec
from tests.builders import Headquarters, a_job, a_spec, timers_of

NOTICE_S = 120.0


def learning(now_s: float = 1000.0, policies: Policies = LIVE) -> Headquarters:
    headquarters = Headquarters(policies=policies, now_s=now_s)
    headquarters.joins("alpha")
    return headquarters


def lending_of(headquarters: Headquarters, node: str = "alpha") -> Lending:
    return headquarters.state.memories.lendings[NodeId(node)]


def reclaim(headquarters: Headquarters, node: str = "alpha", notice_s: float = NOTICE_S) -> None:
    headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + notice_s))
    headquarters.later(notice_s).reported(node, NodeReclaimed(freed_after_s=notice_s, killed=False))


def resume(headquarters: Headquarters, node: str = "alpha") -> None:
    headquarters.reported(node, NodeResumed())


def span(from_s: float, to_s: float, since_s: float | None = None, departed: bool = True) -> LentSpan:
    return LentSpan(
        from_s=from_s, to_s=to_s, departed=departed, free_since_s=from_s if since_s is None else since_s
    )


def test_a_notice_ends_the_time_lent_and_teaches_how_owners_announce() -> None:
    headquarters = learning()
    headquarters.later(600.0)
    reclaim(headquarters)
    lending, campus = lending_of(headquarters), headquarters.state.memories.campus
    assert lending.recent == (span(1000.0, 1600.0),)
    assert lending.free_since_s is None
    assert campus is not None
    assert (campus.notices_s, campus.unannounced) == ((NOTICE_S,), 0)


def test_an_owner_who_returns_the_machine_opens_a_new_time() -> None:
    headquarters = learning()
    reclaim(headquarters.later(600.0))
    resume(headquarters.later(1000.0))
    assert lending_of(headquarters).free_since_s == headquarters.now_s


def test_a_kill_is_a_departure_nobody_announced() -> None:
    headquarters = learning()
    headquarters.later(50.0).reported("alpha", NodeReclaimed(freed_after_s=1.0, killed=True))
    campus = headquarters.state.memories.campus
    assert lending_of(headquarters).recent == (span(1000.0, 1050.0),)
    assert campus is not None
    assert campus.unannounced == 1


def test_a_hiccup_of_the_network_is_no_departure_and_a_long_silence_is_one() -> None:
    headquarters = learning()
    headquarters.later(100.0).silent("alpha")
    headquarters.later(5.0).hears(NodeHeard(node_id=NodeId("alpha")))
    assert lending_of(headquarters).recent == ()
    assert lending_of(headquarters).free_since_s == 1000.0
    headquarters.later(100.0).silent("alpha")
    gone_s = headquarters.now_s
    headquarters.later(600.0).hears(NodeHeard(node_id=NodeId("alpha")))
    assert lending_of(headquarters).recent == (span(1000.0, gone_s),)
    assert lending_of(headquarters).free_since_s == headquarters.now_s


def test_lessons_on_the_way_learn_what_one_book_learns_from_the_same_spans() -> None:
    headquarters = learning(now_s=0.0)
    book, counted_s, since_s = HazardBook(), 0.0, 0.0
    for _ in range(6):
        headquarters.later(HOUR_S / 2)
        left_s = headquarters.now_s
        reclaim(headquarters)
        resume(headquarters.later(HOUR_S / 4))
        back_s = headquarters.now_s
        headquarters.fires("lesson")
        now_s = headquarters.now_s
        told = [span(max(counted_s, since_s), left_s, since_s), span(back_s, now_s, departed=False)]
        book, counted_s, since_s = book.closed(now_s, {"alpha": told}), now_s, back_s
    live = headquarters.state.memories.hazard(Learning())
    assert live.book.history("alpha").ever_departures == 6
    assert live.book.history("alpha").lent_s == pytest.approx(book.history("alpha").lent_s, abs=1.0)
    assert live.book.best("alpha") is book.best("alpha")
    for answer in Answer:
        learned = live.book.profile("alpha", answer).rate_per_s
        assert learned == pytest.approx(book.profile("alpha", answer).rate_per_s, rel=1e-2)


def test_a_restart_knows_exactly_what_the_one_before_it_knew() -> None:
    headquarters = learning(now_s=0.0)
    for _ in range(3):
        reclaim(headquarters.later(HOUR_S / 2))
        resume(headquarters.later(60.0))
        headquarters.fires("lesson")
    other = headquarters.restarts()
    other.hears(CoordinatorStarted())
    node = headquarters.node()
    for at_s in (0.0, 6 * HOUR_S, DAY_S):
        asked = headquarters.now_s + at_s
        before = headquarters.engine.informed_policies().checkpointing
        after = other.engine.informed_policies().checkpointing
        assert before.interval_s(a_job(), node, asked) == after.interval_s(a_job(), node, asked)
    assert other.state.memories.lendings == headquarters.state.memories.lendings


def test_what_is_kept_of_a_node_is_a_few_kilobytes() -> None:
    headquarters = learning(now_s=0.0)
    for _ in range(80):
        reclaim(headquarters.later(7 * HOUR_S))
        resume(headquarters.later(1777.0))
    headquarters.fires("lesson")
    assert len(codec.encode(lending_of(headquarters))) < 10_000
    assert codec.decode(codec.encode(lending_of(headquarters))) == lending_of(headquarters)


def test_the_time_a_coordinator_was_away_counts_for_nothing() -> None:
    headquarters = learning(now_s=0.0)
    headquarters.fires("lesson")
    learned_s = lending_of(headquarters).memory.ever_lent_s
    other = headquarters.restarts()
    other.later(3 * DAY_S).hears(CoordinatorStarted())
    other.fires("lesson")
    assert lending_of(other).memory.ever_lent_s < learned_s + HOUR_S


def test_forecasts_are_settled_by_a_departure_or_by_the_horizon() -> None:
    headquarters = learning(now_s=0.0)
    headquarters.fires("lesson")
    foretold = lending_of(headquarters).foretold
    assert foretold is not None
    reclaim(headquarters.later(HOUR_S / 2))
    bins = lending_of(headquarters).calibration
    assert [(one.forecasts, one.departed) for one in bins if one.forecasts] == [(1, 1)]
    resume(headquarters)
    headquarters.fires("lesson")
    headquarters.later(HORIZON_S + 1.0).fires("lesson")
    bins = lending_of(headquarters).calibration
    assert sum(one.forecasts for one in bins) == 2
    assert sum(one.departed for one in bins) == 1


def test_a_large_campus_is_learned_from_a_few_nodes_at_a_time() -> None:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    for number in range(lessons.NODES_AT_ONCE + 1):
        headquarters.joins(f"node-{number:02d}")
    first = headquarters.fires("lesson")
    assert timers_of(first)["lesson"] == headquarters.now_s + lessons.BETWEEN_S
    assert headquarters.state.memories.campus is not None
    assert headquarters.state.memories.campus.learned_s is None
    headquarters.fires("lesson")
    assert headquarters.state.memories.campus.learned_s == headquarters.now_s
    learned = [one for one in headquarters.state.memories.lendings.values() if one.memory.lent_s]
    assert len(learned) == lessons.NODES_AT_ONCE + 1


def test_a_node_that_leaves_every_hour_is_saved_more_often_than_one_that_stays() -> None:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    headquarters.joins("flighty")
    headquarters.joins("calm")
    for _ in range(40):
        reclaim(headquarters.later(HOUR_S), "flighty")
        resume(headquarters.later(60.0), "flighty")
    headquarters.fires("lesson")
    timing = headquarters.engine.informed_policies().checkpointing
    flighty, calm = headquarters.node("flighty"), headquarters.node("calm")
    often_s = timing.interval_s(a_job(), flighty, headquarters.now_s)
    assert often_s < timing.interval_s(a_job(), calm, headquarters.now_s) / 2
    headquarters.submits(spec=a_spec(expected_s=4 * HOUR_S))
    assert headquarters.run().node_id == "calm"


def test_a_bundle_that_does_not_learn_keeps_no_memory() -> None:
    headquarters = Headquarters(now_s=0.0)
    headquarters.joins("alpha")
    assert headquarters.state.memories.records() == ()


def test_a_campus_that_begins_to_learn_knows_the_nodes_it_has_and_may_stop_again() -> None:
    headquarters = Headquarters(now_s=0.0)
    headquarters.joins("alpha")
    headquarters.joins("beta")
    headquarters.reported("beta", NodeReclaimed(freed_after_s=0.0, killed=True))
    headquarters.engine.policies = LIVE
    other = headquarters.restarts()
    other.hears(CoordinatorStarted())
    assert lending_of(other).free_since_s == other.now_s
    assert lending_of(other, "beta").free_since_s is None
    other.engine.policies = BASELINE
    assert other.fires("lesson").changes == ()
    other.hears(CoordinatorStarted())


def test_a_node_that_stays_silent_has_departed_when_the_lesson_comes() -> None:
    headquarters = learning(now_s=0.0)
    headquarters.later(600.0).silent("alpha")
    headquarters.fires("lesson")
    lending = lending_of(headquarters)
    assert lending.free_since_s is None
    assert (lending.memory.ever_departures, lending.memory.ever_lent_s) == (1, 600.0)
    campus = headquarters.state.memories.campus
    assert campus is not None
    assert campus.unannounced == 1


def test_a_node_that_was_heard_last_a_moment_before_its_hello_was_dealt_with_ends_no_lesson() -> None:
    headquarters = learning(now_s=0.0)
    lesson_s = next(at_s for timer, at_s in headquarters.timers.items() if timer == LessonDue())
    headquarters.later(lesson_s - 9.0).joins("beta")
    headquarters.later(8.0).joins("beta", incarnation="second")
    joined_s = headquarters.now_s
    headquarters.silent("beta", heard_s=joined_s - 1e-4)
    headquarters.fires("lesson")
    assert lending_of(headquarters, "beta").free_since_s == joined_s
    assert lending_of(headquarters, "beta").memory.ever_lent_s == pytest.approx(8.0)


def test_a_node_whose_agent_forgot_everything_has_lost_its_guests() -> None:
    headquarters = learning(now_s=0.0)
    headquarters.later(600.0).joins("alpha", incarnation="second")
    assert lending_of(headquarters).recent == (span(0.0, 600.0),)
    assert lending_of(headquarters).free_since_s == 600.0


def test_an_end_that_nobody_saw_is_no_departure() -> None:
    headquarters = learning(now_s=0.0)
    headquarters.engine.policies = BASELINE
    headquarters.later(600.0).reported("alpha", NodeReclaimed(freed_after_s=0.0, killed=True))
    headquarters.engine.policies = LIVE
    other = headquarters.restarts()
    other.hears(CoordinatorStarted())
    assert lending_of(other).free_since_s is None
    assert lending_of(other).recent == ()


def test_an_owner_who_comes_and_goes_all_day_brings_the_lesson_on() -> None:
    headquarters = learning(now_s=0.0)
    for _ in range(lessons.RECENT_MOST):
        reclaim(headquarters.later(1.0), notice_s=1.0)
        resume(headquarters)
    assert headquarters.timer_at("lesson") == pytest.approx(headquarters.now_s, abs=2.0)
