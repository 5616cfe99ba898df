"""Joint checkpoint scheduling against a numerical optimiser, and what must always hold of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, minimize

from gpunion.domain.ids import RunId
from gpunion.policy.assignment import cheapest
from gpunion.policy.checkpoint_timing.evacuation import evacuates, next_to_save
from gpunion.policy.checkpoint_timing.joint import (
    Saver,
    cost_per_s,
    intervals_s,
    price_of_a_byte,
    traffic_bytes_per_s,
)
from gpunion.policy.reclaim import AtStake, work_per_byte

savers = st.builds(
    Saver,
    weight=st.floats(1.0, 16.0),
    stall_s=st.floats(0.1, 30.0),
    ship_bytes=st.floats(1e6, 2e10),
    loss_rate_per_s=st.floats(1e-7, 1e-3),
)
groups = st.lists(savers, min_size=1, max_size=6)
stakes = st.lists(
    st.builds(
        AtStake,
        run_id=st.uuids().map(lambda uuid: RunId(str(uuid))),
        stall_s=st.floats(0.1, 30.0),
        ship_bytes=st.integers(10**6, 2 * 10**10),
        undurable_s=st.floats(0.0, 7200.0),
        weight=st.floats(1.0, 16.0),
    ),
    max_size=6,
    unique_by=lambda one: one.run_id,
)


@settings(max_examples=40, deadline=None)
@given(groups, st.floats(0.05, 0.95))
def test_the_price_finds_what_a_numerical_optimiser_finds(group: list[Saver], tightness: float) -> None:
    budget = tightness * traffic_bytes_per_s(group, 0.0)
    ours = intervals_s(group, budget)
    assert sum(s.ship_bytes / t for s, t in zip(group, ours, strict=True)) <= budget * (1 + 1e-6)
    assert cost_per_s(group, ours) <= _by_optimiser(group, budget) * (1 + 1e-3)


@given(groups)
def test_with_room_for_all_everybody_saves_as_if_alone(group: list[Saver]) -> None:
    plenty = 2 * traffic_bytes_per_s(group, 0.0)
    assert price_of_a_byte(group, plenty) == 0.0
    assert intervals_s(group, plenty) == tuple(saver.interval_s(0.0) for saver in group)


@given(groups, st.floats(0.05, 1.0), st.floats(1.0, 4.0))
def test_more_bandwidth_never_loses_more(group: list[Saver], tightness: float, more: float) -> None:
    budget = tightness * traffic_bytes_per_s(group, 0.0)
    narrow, wide = intervals_s(group, budget), intervals_s(group, more * budget)
    assert cost_per_s(group, wide) <= cost_per_s(group, narrow) * (1 + 1e-9)


@given(stakes, st.floats(0, 600), st.floats(0, 600), st.floats(1e6, 1e10))
def test_a_longer_notice_never_evacuates_less(
    guests: list[AtStake], notice_s: float, more_s: float, uplink_bps: float
) -> None:
    if evacuates(guests, notice_s=notice_s, uplink_bps=uplink_bps):
        assert evacuates(guests, notice_s=notice_s + more_s, uplink_bps=uplink_bps)


@given(stakes, st.floats(1, 600), st.floats(1e6, 1e10))
def test_saving_one_after_another_ends_with_all_that_is_left_fitting_the_notice(
    guests: list[AtStake], notice_s: float, uplink_bps: float
) -> None:
    left = {guest.run_id: guest for guest in guests}
    saved = []
    while (chosen := next_to_save(list(left.values()), notice_s=notice_s, uplink_bps=uplink_bps)) is not None:
        saved.append(left.pop(chosen))
    assert evacuates(list(left.values()), notice_s=notice_s, uplink_bps=uplink_bps)
    # Nobody was asked in vain: with the last of them it would not have fitted.
    assert not saved or not evacuates([*left.values(), saved[-1]], notice_s=notice_s, uplink_bps=uplink_bps)
    assert [work_per_byte(one) for one in saved] == sorted(map(work_per_byte, saved), reverse=True)


def test_without_a_wire_a_byte_has_no_price_that_would_do() -> None:
    saver = Saver(weight=1.0, stall_s=1.0, ship_bytes=1e9, loss_rate_per_s=1e-5)
    assert price_of_a_byte([saver], 0.0) == inf
    assert intervals_s([saver], 0.0) == (inf,)


@given(
    st.integers(1, 7).flatmap(
        lambda rows: st.integers(rows, 9).flatmap(
            lambda columns: st.lists(
                st.lists(st.floats(0.0, 1e5), min_size=columns, max_size=columns),
                min_size=rows,
                max_size=rows,
            )
        )
    )
)
def test_the_assignment_costs_what_the_library_says_is_least(costs: list[list[float]]) -> None:
    matrix = np.array(costs)
    least = matrix[linear_sum_assignment(matrix)].sum()
    found = cheapest(costs)
    chosen = [column for column in found if column is not None]
    assert len(set(chosen)) == len(costs)
    total = sum(costs[row][column] for row, column in enumerate(chosen))
    assert total == pytest.approx(least, rel=1e-6, abs=1e-3)


def test_who_can_go_nowhere_goes_nowhere_and_takes_no_place() -> None:
    assert cheapest([[inf, inf], [5.0, inf], [3.0, 9.0]]) == (None, 0, 1)
    assert cheapest([]) == ()


def _by_optimiser(group: Sequence[Saver], budget: float) -> float:
    """Minimises over the logarithms of the rates, from the intervals everybody would have alone."""
    start = np.log([1 / saver.interval_s(0.0) for saver in group]) - 1.0
    found = minimize(
        lambda x: cost_per_s(group, list(np.exp(-x))),
        start,
        method="SLSQP",
        constraints={
            "type": "ineq",
            "fun": lambda x: (
                1 - sum(s.ship_bytes * np.exp(r) for s, r in zip(group, x, strict=True)) / budget
            ),
        },
        options={"maxiter": 300, "ftol": 1e-14},
    )
    return float(found.fun) if found.success else inf
