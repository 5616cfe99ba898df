"""What people are told of a node's future."""

from __future__ import annotations

from math import exp

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.lending import CalibrationBin, Foretold, Lending, LentSpan
from gpunion.domain.nodes.node import NodePhase
from gpunion.policy.hazard import calibration
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.buckets import DAY_S, HOUR_S
from gpunion.policy.hazard.outlook import outlook
from gpunion.policy.hazard.weekly import WeeklyHazard
from tests.builders import a_node

LENDING = Lending(id=NodeId("alpha"), counted_s=0.0)


def test_a_node_that_leaves_twice_a_day_is_expected_back_in_half_a_day() -> None:
    spans = [
        LentSpan(from_s=half * DAY_S / 2, to_s=(half + 1) * DAY_S / 2, departed=True, free_since_s=0.0)
        for half in range(200)
    ]
    hazard = WeeklyHazard(book=HazardBook(age_effect=False).closed(100 * DAY_S, {"alpha": spans}))
    found = outlook(hazard, a_node(), {}, 100 * DAY_S)
    assert found.expected_s == pytest.approx(DAY_S / 2, rel=0.1)
    assert [stay.horizon_s / HOUR_S for stay in found.stays] == [1, 4, 12]
    assert found.stays[1].chance == pytest.approx(exp(-4 / 12), abs=0.05)
    assert all(stay.cautious <= stay.chance for stay in found.stays)
    assert (found.departures, found.lent_s) == (200, 100 * DAY_S)


def test_nothing_is_foretold_of_a_node_that_is_not_lent() -> None:
    found = outlook(WeeklyHazard(), a_node(phase=NodePhase.RECLAIMED), {}, 0.0)
    assert (found.stays, found.expected_s) == ((), None)


@pytest.mark.parametrize(("after_s", "seen"), [(HOUR_S, 1), (calibration.HORIZON_S + 1, 0)])
def test_a_departure_counts_for_a_forecast_only_within_its_horizon(after_s: float, seen: int) -> None:
    waiting = Lending(id=LENDING.id, counted_s=0.0, foretold=Foretold(made_s=0.0, chance=0.34))
    settled = calibration.settled_by_departure(waiting, after_s)
    assert settled.foretold is None
    assert settled.calibration[3] == CalibrationBin(forecasts=1, foretold=0.34, departed=seen)
    assert calibration.settled_by_departure(LENDING, after_s) is LENDING


def test_a_forecast_waits_for_its_horizon_and_certainty_has_a_bin_too() -> None:
    waiting = Lending(id=LENDING.id, counted_s=0.0, foretold=Foretold(made_s=0.0, chance=1.0))
    assert calibration.settled_by_time(waiting, HOUR_S) is waiting
    settled = calibration.settled_by_time(waiting, calibration.HORIZON_S)
    assert settled.calibration[-1] == CalibrationBin(forecasts=1, foretold=1.0, departed=0)
    pooled = calibration.pooled([settled.calibration, (), settled.calibration])
    assert pooled[-1].forecasts == 2
