from __future__ import annotations

import json
from dataclasses import replace
from math import exp

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.signs import Sign
from gpunion.lab.forecasts.oracle import NEVER_RATE_PER_S, OracleHazard
from gpunion.lab.forecasts.periods import cut, periods_of
from gpunion.policy.checkpoint_timing.interval import Young
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.buckets import DAY_S, HOUR_S, NO_AGE_EFFECT, WEEK_S
from gpunion.policy.hazard.constant import ConstantHazard, Survival, upper_ratio
from gpunion.policy.hazard.evidence import Evidence, best_answer, pooled
from gpunion.policy.hazard.history import HALF_LIFE_S
from gpunion.policy.hazard.profile import Answer, RateProfile
from gpunion.policy.hazard.signs import (
    FACTOR_LEAST,
    FACTOR_MOST,
    SPEAK_FOR_S,
    SignBook,
    book_of_signs,
)
from gpunion.policy.hazard.weekly import WeeklyHazard
from tests.builders import a_job, a_node
from tests.unit.hazard.records import MONDAY_S, office_owner, restless_owner

NOON_S = MONDAY_S + 12 * HOUR_S


def a_profile(rate_per_s: float = 1e-4, evidence: float = 5.0) -> RateProfile:
    return RateProfile(
        answer=Answer.OWN,
        utc_offset_s=0.0,
        rate_per_s=(rate_per_s,) * 168,
        evidence=(evidence,) * 168,
        age_factor=NO_AGE_EFFECT,
    )


def learned(record: dict[str, list]) -> HazardBook:
    book, periods = HazardBook(), periods_of(record)
    for (_, end_s), told in zip(periods, cut(record, periods), strict=True):
        book = book.closed(end_s, {node: [one.part for one in parts] for node, parts in told.items()})
    return book


def test_survival_of_a_constant_rate_is_the_exponential_even_over_weeks() -> None:
    profile = a_profile(1e-6)
    assert profile.survival(NOON_S, 3.5 * WEEK_S, free_since_s=NOON_S) == pytest.approx(
        exp(-1e-6 * 3.5 * WEEK_S)
    )


def test_an_announced_end_is_certain() -> None:
    profile = a_profile()
    kept = profile.survival(NOON_S, 600, free_since_s=NOON_S, hard_end_s=NOON_S + 600)
    assert kept > 0.9
    assert profile.survival(NOON_S, 601, free_since_s=NOON_S, hard_end_s=NOON_S + 600) == 0.0


def test_admission_is_told_a_higher_rate_the_less_is_known() -> None:
    sure, unsure = a_profile(evidence=1000.0), a_profile(evidence=3.0)
    assert sure.rate_at(NOON_S, free_since_s=NOON_S) < sure.upper_rate_at(NOON_S, free_since_s=NOON_S)
    assert sure.upper_rate_at(NOON_S, free_since_s=NOON_S) < unsure.upper_rate_at(NOON_S, free_since_s=NOON_S)
    assert unsure.lower_survival(NOON_S, 3600, free_since_s=NOON_S) < unsure.survival(
        NOON_S, 3600, free_since_s=NOON_S
    )


@pytest.mark.parametrize(
    ("evidence", "exact"),  # the 80 % points of Gamma(n, n), from tables
    [(1.0, 1.6094), (5.0, 1.3442), (50.0, 1.1170)],
)
def test_the_upper_rate_is_the_eighty_percent_point_of_a_gamma(evidence: float, exact: float) -> None:
    assert upper_ratio(evidence) == pytest.approx(exact, rel=0.01)


def test_the_upper_rate_is_never_below_the_mean() -> None:
    assert upper_ratio(0.05) == 1.0


def test_a_node_with_office_hours_is_trusted_to_have_them() -> None:
    record = {f"lab-{seed}": office_owner(seed, 28) for seed in range(6)}
    book = learned(record)
    assert {book.best(node) for node in record} <= {Answer.OWN, Answer.FLEET}
    profile = book.profile("lab-0")
    night_s, noon_s = MONDAY_S + 28 * DAY_S + 2 * HOUR_S, MONDAY_S + 28 * DAY_S + 12 * HOUR_S
    assert profile.survival(night_s, 4 * HOUR_S, free_since_s=night_s) > 0.9
    assert profile.survival(noon_s, 4 * HOUR_S, free_since_s=noon_s) < 0.5


def test_a_fleet_without_a_rhythm_falls_back_to_a_week_without_one() -> None:
    record = {f"lab-{seed}": restless_owner(seed, 28) for seed in range(4)}
    book = learned(record)
    assert {book.best(node) for node in record} <= {Answer.FLAT, Answer.CONSTANT}


def test_without_evidence_the_constant_is_used() -> None:
    assert best_answer(Evidence(), Evidence()) is Answer.CONSTANT
    assert HazardBook().profile("unknown").answer is Answer.CONSTANT


def test_one_lucky_day_earns_no_trust() -> None:
    gain = dict.fromkeys(Answer, 0.0) | {Answer.OWN: 4.0}
    lucky = Evidence(departures=9.0, nats=gain, squares=dict.fromkeys(Answer, 0.0) | {Answer.OWN: 16.0})
    steady = Evidence(departures=9.0, nats=gain, squares=dict.fromkeys(Answer, 0.0) | {Answer.OWN: 1.6})
    assert best_answer(lucky, Evidence()) is Answer.CONSTANT
    assert best_answer(steady, Evidence()) is Answer.OWN
    assert best_answer(Evidence(), steady) is Answer.OWN
    assert pooled([lucky, steady]).without(lucky).nats == steady.nats


def test_a_book_survives_being_written_down() -> None:
    book = learned({"a": office_owner(1, 15), "b": restless_owner(2, 15)})
    again = HazardBook.from_plain(json.loads(json.dumps(book.to_plain())))
    assert again == book
    assert again.profile("a") == book.profile("a")


def test_a_damaged_book_is_refused() -> None:
    with pytest.raises(ValueError, match="nodes"):
        HazardBook.from_plain({})
    with pytest.raises(ValueError, match="nats"):
        Evidence.from_plain({"as_of_s": 0, "departures": 0})


def test_a_sign_means_nothing_until_it_has_been_followed_by_departures() -> None:
    book = SignBook()
    assert book.factor({Sign.KEYBOARD}) == 1.0
    for _ in range(40):
        book = book.seen({Sign.KEYBOARD}, departed=True, expected=0.05, at_s=0.0)
        book = book.seen((), departed=False, expected=1.0, at_s=0.0)
    assert 5 < book.factor({Sign.KEYBOARD}) <= FACTOR_MOST
    assert FACTOR_LEAST <= book.factor(()) < 1.0  # who is not there does not come
    assert book.factor({Sign.OWNER_ON_GPU}) == 1.0


def test_signs_that_come_together_count_once() -> None:
    book, both = SignBook(), {Sign.KEYBOARD, Sign.OWNER_LOGGED_IN}
    for _ in range(40):
        book = book.seen(both, departed=True, expected=0.1, at_s=0.0)
        book = book.seen((), departed=False, expected=0.9, at_s=0.0)
    assert book.factor(both) == pytest.approx(43 / 7, rel=0.05)
    assert book.factor({Sign.KEYBOARD}) == 1.0  # nobody has ever seen it alone


def test_what_all_machines_do_more_often_than_expected_is_not_put_down_to_signs() -> None:
    book = SignBook()
    for _ in range(100):
        book = book.seen({Sign.KEYBOARD}, departed=True, expected=0.2, at_s=0.0)
        book = book.seen((), departed=True, expected=0.2, at_s=0.0)
    assert book.factor({Sign.KEYBOARD}) == book.factor(()) == pytest.approx(1.0, abs=0.15)


def test_what_signs_meant_long_ago_fades_and_the_record_is_the_whole_truth() -> None:
    book = SignBook()
    for _ in range(20):
        book = book.seen({Sign.KEYBOARD}, departed=True, expected=0.1, at_s=0.0)
        book = book.seen((), departed=False, expected=1.0, at_s=0.0)
    later = book.seen((), departed=False, expected=0.0, at_s=3 * HALF_LIFE_S)
    assert later.tallies[frozenset({Sign.KEYBOARD})].departures == pytest.approx(20 / 8)
    assert 1.0 < later.factor({Sign.KEYBOARD}) < book.factor({Sign.KEYBOARD})
    assert book_of_signs(later.records(), later.as_of_s) == later


def test_the_live_hazard_follows_week_signs_and_plans() -> None:
    book = learned({f"lab-{seed}": office_owner(seed, 28) for seed in range(6)})
    node = replace(a_node("lab-0"), phase_since_s=NOON_S)
    sign_book = SignBook()
    for _ in range(40):
        sign_book = sign_book.seen({Sign.OWNER_LOGGED_IN}, departed=True, expected=0.05, at_s=0.0)
        sign_book = sign_book.seen((), departed=False, expected=1.0, at_s=0.0)
    hazard = WeeklyHazard(book=book, sign_book=sign_book)
    warned, planned = replace(node, signs=(Sign.OWNER_LOGGED_IN,)), replace(node, known_end_s=NOON_S + 60)
    assert hazard.rate_per_s(warned, NOON_S) > 3 * hazard.rate_per_s(node, NOON_S) > 0
    assert hazard.upper_rate_per_s(warned, NOON_S) > 3 * hazard.upper_rate_per_s(node, NOON_S)
    assert hazard.survival(warned, NOON_S, 600) < hazard.survival(node, NOON_S, 600)
    assert hazard.lower_survival(warned, NOON_S, 600) < hazard.lower_survival(node, NOON_S, 600)
    assert hazard.survival(planned, NOON_S, 600) == hazard.lower_survival(planned, NOON_S, 600) == 0.0
    assert hazard.upper_rate_per_s(node, NOON_S) > hazard.rate_per_s(node, NOON_S)


def test_a_sign_speaks_of_the_next_hour_and_not_of_the_night() -> None:
    sign_book = SignBook()
    for _ in range(40):
        sign_book = sign_book.seen({Sign.KEYBOARD}, departed=True, expected=0.05, at_s=0.0)
        sign_book = sign_book.seen((), departed=False, expected=1.0, at_s=0.0)
    hazard, node = WeeklyHazard(sign_book=sign_book), a_node()
    warned = replace(node, signs=(Sign.KEYBOARD,))
    after_1h, after_8h = (
        hazard.survival(warned, NOON_S, horizon_s) / hazard.survival(node, NOON_S, horizon_s)
        for horizon_s in (SPEAK_FOR_S, 8 * SPEAK_FOR_S)
    )
    assert after_1h < 0.9
    assert after_8h == pytest.approx(after_1h)


def test_a_node_that_is_free_from_later_on_counts_as_just_freed() -> None:
    node = replace(a_node(), phase_since_s=NOON_S + 50)
    assert WeeklyHazard().rate_per_s(node, NOON_S) > 0


def test_the_oracle_knows_the_moment() -> None:
    node = a_node()
    oracle = OracleHazard(departures_s={node.id: (100.0, 500.0)})
    assert oracle.survival(node, 90.0, 5.0) == 1.0
    assert oracle.survival(node, 90.0, 10.0) == 0.0
    assert oracle.survival(node, 90.0, 0.0) == 1.0
    assert oracle.rate_per_s(node, 450.0) == oracle.upper_rate_per_s(node, 450.0) == 1 / 50
    assert oracle.rate_per_s(node, 600.0) == NEVER_RATE_PER_S
    assert OracleHazard(departures_s={}).lower_survival(node, 0.0, 1e9) == 1.0
    assert oracle.leaves_s(NodeId("other"), 0.0) == float("inf")


@pytest.mark.parametrize("hazard", [ConstantHazard(), WeeklyHazard(), OracleHazard(departures_s={})])
def test_every_hazard_answers_the_same_questions(hazard: Survival) -> None:
    node = a_node()
    assert hazard.rate_per_s(node, 1000.0) > 0
    assert hazard.upper_rate_per_s(node, 1000.0) >= hazard.rate_per_s(node, 1000.0)
    assert hazard.survival(node, 1000.0, 0.0) == 1.0
    assert hazard.lower_survival(node, 1000.0, 3600.0) <= hazard.survival(node, 1000.0, 3600.0) <= 1.0
    assert Young(hazard=hazard).interval_s(a_job(), node, 1000.0) > 0
