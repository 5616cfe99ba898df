"""Whatever flows want to share a link: those admitted make it, and the cap holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpunion.policy.bandwidth import Flow, earliest_deadline_first
from tests.searching import QUICK

ROUNDING = 1e-6
flows = st.lists(
    st.builds(
        Flow,
        name=st.uuids().map(str),
        size_bits=st.integers(0, 10**9).map(float),
        deadline_s=st.floats(-10, 1000).map(lambda at_s: round(at_s, 3)),
    ),
    max_size=8,
    unique_by=lambda flow: flow.name,
)
caps = st.floats(1e3, 1e8)


@QUICK
@given(flows=flows, cap_bps=caps)
def test_every_admitted_flow_meets_its_deadline_at_its_rate(flows: list[Flow], cap_bps: float) -> None:
    rates = earliest_deadline_first(flows, cap_bps=cap_bps, now_s=0.0)
    for flow in flows:
        rate_bps = rates.of(flow.name)
        if rate_bps is not None:
            assert flow.deadline_s > 0
            assert rate_bps * flow.deadline_s >= flow.size_bits * (1 - ROUNDING)


@QUICK
@given(flows=flows, cap_bps=caps)
def test_the_rates_together_stay_under_the_cap(flows: list[Flow], cap_bps: float) -> None:
    rates = earliest_deadline_first(flows, cap_bps=cap_bps, now_s=0.0)
    assert sum(rate for _, rate in rates.by_flow) <= cap_bps * (1 + ROUNDING)


@QUICK
@given(flows=flows, cap_bps=caps)
def test_every_flow_is_either_admitted_or_refused(flows: list[Flow], cap_bps: float) -> None:
    rates = earliest_deadline_first(flows, cap_bps=cap_bps, now_s=0.0)
    assert sorted([*dict(rates.by_flow), *rates.refused]) == sorted(flow.name for flow in flows)


@QUICK
@given(flows=flows, cap_bps=caps)
def test_whatever_is_admitted_satisfies_the_textbook_condition(flows: list[Flow], cap_bps: float) -> None:
    """Σ_{d_f <= d_k} bits_f <= cap (d_k - t), for every admitted k."""
    rates = earliest_deadline_first(flows, cap_bps=cap_bps, now_s=0.0)
    admitted = [flow for flow in flows if rates.of(flow.name) is not None]
    for last in admitted:
        queued_bits = sum(flow.size_bits for flow in admitted if flow.deadline_s <= last.deadline_s)
        assert queued_bits <= cap_bps * last.deadline_s * (1 + ROUNDING) + ROUNDING


@QUICK
@given(flow=flows.filter(bool).map(lambda flows: flows[0]), cap_bps=caps)
def test_a_flow_alone_is_admitted_exactly_when_it_can_make_it(flow: Flow, cap_bps: float) -> None:
    rates = earliest_deadline_first([flow], cap_bps=cap_bps, now_s=0.0)
    able = flow.deadline_s > 0 and flow.size_bits <= cap_bps * flow.deadline_s * (1 + ROUNDING)
    if rates.of(flow.name) is not None:
        assert able
    elif able:
        assert flow.size_bits > cap_bps * flow.deadline_s * (1 - ROUNDING)
