"""What holds of every hazard, whatever the owners did."""

from __future__ import annotations

import json
from itertools import pairwise
from math import exp, inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.policy.hazard.answers import profile_of, profiles_of
from gpunion.policy.hazard.buckets import DAY_S, HOUR_S, WEEK_S
from gpunion.policy.hazard.fleet import fit_fleet
from gpunion.policy.hazard.history import LentSpan, NodeHistory
from gpunion.policy.hazard.profile import Answer, RateProfile

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

TIMES_S = st.floats(min_value=0.0, max_value=90 * DAY_S)
HORIZONS_S = st.floats(min_value=0.0, max_value=3 * WEEK_S)
OFFSETS_S = st.integers(min_value=-12, max_value=14).map(lambda hours: hours * HOUR_S)


@st.composite
def spans(draw: st.DrawFn) -> LentSpan:
    free_since_s = draw(TIMES_S)
    from_s = free_since_s + draw(st.floats(min_value=0.0, max_value=DAY_S))
    to_s = from_s + draw(st.floats(min_value=0.0, max_value=5 * WEEK_S))
    return LentSpan(from_s=from_s, to_s=to_s, departed=draw(st.booleans()), free_since_s=free_since_s)


RECORDS = st.lists(spans(), min_size=1, max_size=8)


@st.composite
def profiles(draw: st.DrawFn) -> RateProfile:
    rates = draw(st.lists(st.floats(min_value=1e-9, max_value=1e-2), min_size=168, max_size=168))
    factors = draw(st.lists(st.floats(min_value=1 / 3, max_value=3.0), min_size=10, max_size=10))
    evidence = draw(st.floats(min_value=0.05, max_value=1e4))
    return RateProfile(
        answer=Answer.OWN,
        utc_offset_s=draw(OFFSETS_S),
        rate_per_s=tuple(rates),
        evidence=(evidence,) * 168,
        age_factor=tuple(factors),
    )


@settings(deadline=None)
@given(profiles(), TIMES_S, HORIZONS_S, HORIZONS_S, st.floats(min_value=0.0, max_value=2 * DAY_S))
def test_survival_is_a_chance_that_never_grows_with_the_horizon(
    profile: RateProfile, now_s: float, one_s: float, other_s: float, age_s: float
) -> None:
    since_s = now_s - age_s
    short_s, long_s = sorted((one_s, other_s))
    near = profile.survival(now_s, short_s, free_since_s=since_s)
    far = profile.survival(now_s, long_s, free_since_s=since_s)
    assert 0.0 <= far <= near * (1 + 1e-9) <= 1.0 + 1e-9
    assert profile.survival(now_s, 0.0, free_since_s=since_s) == 1.0
    assert profile.lower_survival(now_s, long_s, free_since_s=since_s) <= far * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(
    profiles(),
    TIMES_S,
    st.floats(min_value=0.0, max_value=9 * DAY_S),
    st.floats(min_value=0.0, max_value=2 * DAY_S),
)
def test_the_prefix_sum_is_the_integral(
    profile: RateProfile, now_s: float, horizon_s: float, age_s: float
) -> None:
    """Added up by brute force, from one moment at which the rate may change to the next."""
    since_s = now_s - age_s
    end_s = now_s + horizon_s
    total, at_s = 0.0, now_s
    while at_s < end_s:
        next_hour_s = (at_s // HOUR_S + 1) * HOUR_S
        next_age_s = min((since_s + edge_s for edge_s in AGE_EDGES_S if since_s + edge_s > at_s), default=inf)
        until_s = min(end_s, next_hour_s, next_age_s)
        middle_s = (at_s + until_s) / 2
        total += (until_s - at_s) * profile.rate_at(middle_s, free_since_s=since_s)
        at_s = until_s
    found = profile.expected(now_s, end_s, free_since_s=since_s)
    assert found == pytest.approx(total, rel=1e-6, abs=1e-6)
    assert profile.survival(now_s, horizon_s, free_since_s=since_s) == pytest.approx(
        exp(-total), rel=1e-4, abs=1e-9
    )


AGE_EDGES_S = (120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 18_000.0, 36_000.0, 72_000.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=4), OFFSETS_S)
def test_every_answer_has_a_positive_finite_rate_at_every_hour(
    records: list[list[LentSpan]], offset_s: float
) -> None:
    histories = [NodeHistory(utc_offset_s=offset_s).absorbed(record) for record in records]
    now_s = max(history.as_of_s for history in histories)
    prior = fit_fleet(histories, now_s)
    assert all(0 < shape < inf for shape in (*prior.merged.shape, *prior.full.shape))
    assert all(1 / 3 <= factor <= 3 for factor in prior.age_factor)
    for history in (*histories, NodeHistory(utc_offset_s=offset_s)):
        for profile in profiles_of(history, prior, now_s).values():
            assert all(0 < rate < inf for rate in profile.rate_per_s)
            assert all(0 < evidence < inf for evidence in profile.evidence)


@settings(max_examples=50, deadline=None)
@given(RECORDS, OFFSETS_S)
def test_a_history_survives_being_written_down(record: list[LentSpan], offset_s: float) -> None:
    history = NodeHistory(utc_offset_s=offset_s).absorbed(record)
    assert NodeHistory.from_plain(json.loads(json.dumps(history.to_plain()))) == history


@settings(max_examples=50, deadline=None)
@given(RECORDS, st.lists(TIMES_S, max_size=5), st.randoms(use_true_random=False))
def test_learning_bit_by_bit_is_learning_at_once(record: list[LentSpan], cuts_s: list[float], chance) -> None:
    """Whatever the order, and wherever the spans are cut."""
    at_once = NodeHistory().absorbed(record)
    bits = [bit for span in record for bit in pieces(span, sorted(cuts_s))]
    chance.shuffle(bits)
    online = NodeHistory()
    for bit in bits:
        online = online.absorbed([bit])
    assert online.as_of_s == at_once.as_of_s
    assert online.lent_s == pytest.approx(at_once.lent_s, rel=1e-6, abs=1e-3)
    assert online.departures == pytest.approx(at_once.departures, rel=1e-6, abs=1e-9)
    assert online.aged_lent_s == pytest.approx(at_once.aged_lent_s, rel=1e-6, abs=1e-3)
    assert online.ever_departures == at_once.ever_departures
    prior = fit_fleet([at_once], at_once.as_of_s)
    for answer in Answer:
        whole = profile_of(at_once, prior, at_once.as_of_s, answer)
        bitwise = profile_of(online, prior, online.as_of_s, answer)
        assert bitwise.rate_per_s == pytest.approx(whole.rate_per_s, rel=1e-5)


def pieces(span: LentSpan, cuts_s: list[float]) -> list[LentSpan]:
    inner = [cut_s for cut_s in cuts_s if span.from_s + 2 < cut_s < span.to_s - 2]
    edges = [span.from_s, *inner, span.to_s]
    if not inner:
        return [span]
    parts = [span.within(begin, end) for begin, end in pairwise(edges)]
    return [part for part in parts if part is not None]
