"""Owners who can be seen before they come: what that saves where signs mean something, and where not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from gpunion.lab.reference.seen import SeenCost, cost_of, seen_campus
from gpunion.sim.scenario.values import SignHabit

SEEDS = (1, 2)
DAYS = 12.0
# Four visits of five can be seen coming ten minutes ahead; once a day somebody is seen who wants nothing.
TELLING = SignHabit(before_visits=0.8, ahead_s=600.0, idle_per_day=1.0)
# Somebody is seen six times a day, and owners come whether or not.
MEANINGLESS = SignHabit(idle_per_day=6.0, idle_s=1200.0)


@cache
def cost(seed: int, habit: SignHabit | None) -> SeenCost:
    return cost_of(seen_campus(seed, habit, days=DAYS))


def against_none(habit: SignHabit, what: Callable[[SeenCost], float]) -> float:
    """Over all seeds, as a share of the same owners' cost where nothing is told."""
    seen, unseen = (sum(what(cost(seed, one)) for seed in SEEDS) for one in (habit, None))
    return seen / unseen


def factors(found: SeenCost) -> dict[bool, list[float]]:
    """Of what was seen at work; whether anything was shown."""
    known = [one for one in found.tallies if one.expected > 1.0 or one.departures > 1.0]
    return {
        shown: [found.book.factor(one.shown) for one in known if bool(one.shown) is shown]
        for shown in (False, True)
    }


def test_signs_with_a_meaning_save_work_and_saves() -> None:
    assert against_none(TELLING, lambda cost: cost.lost_s) < 0.85
    assert against_none(TELLING, lambda cost: cost.stalled_s) < 0.85


def test_signs_without_a_meaning_change_nothing_in_the_mean() -> None:
    assert against_none(MEANINGLESS, lambda cost: cost.lost_s) == pytest.approx(1.0, abs=0.06)
    assert against_none(MEANINGLESS, lambda cost: cost.stalled_s) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_signs_are_worth_is_found_out(seed: int) -> None:
    told = factors(cost(seed, TELLING))
    assert max(told[False]) < 0.6
    assert min(told[True]) > 4.0
    untold = factors(cost(seed, MEANINGLESS))
    assert all(0.4 < factor < 2.0 for factor in (*untold[False], *untold[True]))
