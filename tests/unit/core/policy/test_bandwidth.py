"""How fast state may be moved."""

from __future__ import annotations

import pytest

from gpunion.policy.bandwidth import (
    MARGIN,
    Flow,
    earliest_deadline_first,
    periodic_rate_bps,
    reclaim_cap_bps,
)


def a_flow(name: str, size_bits: float, deadline_s: float) -> Flow:
    return Flow(name=name, size_bits=size_bits, deadline_s=deadline_s)


def test_a_flow_alone_gets_the_whole_share() -> None:
    rates = earliest_deadline_first([a_flow("only", 10, 10)], cap_bps=100, now_s=0)
    assert rates.by_flow == (("only", 100),)


def test_later_flows_get_the_least_that_meets_their_deadline_and_the_earliest_what_is_left() -> None:
    rates = earliest_deadline_first([a_flow("late", 100, 20), a_flow("early", 100, 10)], cap_bps=100, now_s=0)
    late_bps = (1 + MARGIN) * 100 / 20
    assert rates.of("late") == pytest.approx(late_bps)
    assert rates.of("early") == pytest.approx(100 - late_bps)


def test_where_the_margin_does_not_fit_everybody_gives_up_the_same_share_of_it() -> None:
    rates = earliest_deadline_first([a_flow("one", 480, 10), a_flow("two", 480, 10)], cap_bps=100, now_s=0)
    assert rates.by_flow == (("one", 50), ("two", 50))


def test_a_flow_that_could_only_make_it_after_another_one_is_refused() -> None:
    """Ten bits by one second and ten more by two would fit one after the other, but rates are kept."""
    rates = earliest_deadline_first([a_flow("early", 10, 1), a_flow("late", 10, 2)], cap_bps=10, now_s=0)
    assert rates.refused == ("late",)
    assert rates.of("early") == pytest.approx(10)


def test_a_flow_too_big_for_its_deadline_does_not_keep_a_later_one_out() -> None:
    rates = earliest_deadline_first([a_flow("big", 1000, 1), a_flow("small", 10, 2)], cap_bps=10, now_s=0)
    assert (rates.refused, rates.of("big"), rates.of("small")) == (("big",), None, 10)


def test_a_deadline_that_has_come_is_too_late_even_for_nothing() -> None:
    rates = earliest_deadline_first([a_flow("nothing", 0, 5)], cap_bps=10, now_s=5)
    assert rates.refused == ("nothing",)


def test_no_flows_need_no_rates() -> None:
    rates = earliest_deadline_first([], cap_bps=10, now_s=0)
    assert (rates.by_flow, rates.refused) == ((), ())


def test_the_owner_s_traffic_keeps_half_of_the_link() -> None:
    assert reclaim_cap_bps(1e9) == 0.5e9


def test_periodic_saves_share_what_flushes_may_use() -> None:
    assert periodic_rate_bps(1e9, 4) == 0.125e9
    assert periodic_rate_bps(1e9, 0) == 0.5e9
