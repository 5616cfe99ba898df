from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from gpunion.lab.forecasts.periods import cut, periods_of
from gpunion.lab.forecasts.prequential import FOLDS_MOST, Examination, folds, later_weeks, left_out
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.buckets import DAY_S, HOUR_S, NO_AGE_EFFECT, WEEK_S
from gpunion.policy.hazard.history import LentSpan
from gpunion.policy.hazard.profile import Answer, RateProfile
from gpunion.policy.hazard.scoring import (
    Forecast,
    best_constant_nats,
    brier,
    forecast,
    log_likelihood,
    reliability,
)
from tests.unit.hazard.records import MONDAY_S, a_span, office_owner, restless_owner


def flat(rate_per_s: float) -> RateProfile:
    return RateProfile(
        answer=Answer.CONSTANT,
        utc_offset_s=0.0,
        rate_per_s=(rate_per_s,) * 168,
        evidence=(1.0,) * 168,
        age_factor=NO_AGE_EFFECT,
    )


def examined(record: dict[str, list[LentSpan]]) -> tuple[Examination, Examination]:
    periods, empty = periods_of(record), HazardBook()
    steps: list[None] = []
    step = lambda: steps.append(None)  # noqa: E731
    later, left = later_weeks(record, periods, empty, step), left_out(record, periods, empty, step)
    assert len(steps) == periods.count + len(folds(sorted(record)))
    return later, left


def test_likelihood_of_a_constant_rate_is_that_of_poisson() -> None:
    spans = [a_span(0, 2), a_span(3, 1, departed=False)]
    assert log_likelihood(flat(1e-4), spans) == pytest.approx(log(1e-4) - 1e-4 * 3 * HOUR_S)


def test_no_constant_is_better_than_the_best_in_hindsight() -> None:
    spans = [a_span(0, 2), a_span(3, 7)]
    best = best_constant_nats(2, 9 * HOUR_S)
    assert best == pytest.approx(log_likelihood(flat(2 / (9 * HOUR_S)), spans))
    assert best > log_likelihood(flat(1.1 * 2 / (9 * HOUR_S)), spans)
    assert best_constant_nats(0, 100.0) == 0.0


def test_a_forecast_nobody_can_check_is_not_made() -> None:
    censored, taken = a_span(0, 1, departed=False), a_span(0, 1)
    assert forecast(flat(1e-4), flat(1e-4), censored, censored.from_s, 2 * HOUR_S) is None
    made = forecast(flat(1e-4), flat(1e-4), taken, taken.from_s, 2 * HOUR_S)
    assert made is not None
    assert made.departed
    stayed = forecast(flat(1e-4), flat(1e-4), censored, censored.from_s, HOUR_S / 2)
    assert stayed is not None
    assert not stayed.departed


def test_brier_and_reliability_of_forecasts_that_are_right() -> None:
    made = [Forecast(chance=chance, constant_chance=0.5, departed=chance > 0.5) for chance in (0.0, 1.0) * 20]
    assert (brier(made).score, brier(made).constant_score, brier(made).skill) == (0.0, 0.25, 1.0)
    deciles = reliability(made)
    assert [decile.forecasts for decile in deciles] == [4] * 10
    assert deciles[0].foretold == deciles[0].seen == 0.0
    assert deciles[-1].foretold == deciles[-1].seen == 1.0


def test_nothing_foretold_scores_nothing() -> None:
    assert brier([]).skill == 0.0
    assert reliability([]) == ()


def test_three_weeks_are_cut_by_days_and_scored_from_the_second_week() -> None:
    periods = periods_of({"a": [a_span(0, 21 * 24)]})
    assert periods.each_s == DAY_S
    assert periods.count == 21
    assert periods.later_from_s == MONDAY_S + WEEK_S


def test_a_day_is_cut_finer_and_a_decade_coarser() -> None:
    assert periods_of({"a": [a_span(0, 24)]}).each_s == pytest.approx(24 * HOUR_S / 20)
    decade = periods_of({"a": [a_span(0, 10 * 365 * 24)]})
    assert decade.each_s % DAY_S == 0
    assert decade.count <= 60
    assert periods_of({"a": [a_span(0, 10 * 365 * 24)]}, most=8).count <= 8


def test_a_record_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="lent"):
        periods_of({"a": []})


def test_cutting_loses_no_time_and_doubles_no_departure() -> None:
    record = {"a": office_owner(3, 10), "b": restless_owner(4, 10)}
    parts = [one.part for told in cut(record, periods_of(record)) for of in told.values() for one in of]
    spans = [span for of in record.values() for span in of]
    assert sum(part.to_s - part.from_s for part in parts) == pytest.approx(
        sum(span.to_s - span.from_s for span in spans)
    )
    assert sum(part.departed for part in parts) == sum(span.departed for span in spans)


def test_office_hours_are_foretold_also_for_a_node_nobody_has_seen() -> None:
    later, left = examined({f"lab-{seed}": office_owner(seed, 21) for seed in range(6)})
    assert later.gain() > 0.4
    assert left.gain() > 0.4
    assert later.strict_gain() > 0.3
    assert later.gain(Answer.CONSTANT) == 0.0
    one_hour = brier(later.forecasts[HOUR_S])
    assert one_hour.skill > 0.05


def test_where_there_is_nothing_to_foretell_nothing_is_lost() -> None:
    later, left = examined({f"lab-{seed}": restless_owner(seed, 21) for seed in range(6)})
    for examination in (later, left):
        for score in examination.nodes.values():
            assert (score.nats[None] - score.nats[Answer.CONSTANT]) / score.departures > -0.02


def test_the_future_changes_no_score_of_the_past() -> None:
    """The one rule: take the last week away, and what was foretold before it is what it was."""
    record = {f"lab-{seed}": office_owner(seed, 28) for seed in range(3)}
    end_s = MONDAY_S + 21 * DAY_S
    periods = replace(periods_of(record), to_s=end_s)
    cut_off = {
        node: [part for span in spans if (part := span.within(0.0, end_s))] for node, spans in record.items()
    }
    for examine in (later_weeks, left_out):
        with_future = examine(record, periods, HazardBook(), lambda: None)
        without = examine(cut_off, periods, HazardBook(), lambda: None)
        assert {node: score.nats for node, score in with_future.nodes.items()} == {
            node: score.nats for node, score in without.nodes.items()
        }


def test_many_nodes_are_left_out_a_fold_at_a_time() -> None:
    names = [f"n{number:03d}" for number in range(100)]
    assert len(folds(names)) == FOLDS_MOST
    assert sorted(name for fold in folds(names) for name in fold) == names


def test_a_node_that_is_never_lent_again_is_not_scored() -> None:
    gone = [span for span in office_owner(1, 21) if span.to_s < MONDAY_S + 3 * DAY_S]
    later, left = examined({"gone": gone, "here": office_owner(2, 21), "there": office_owner(3, 21)})
    assert set(later.nodes) == set(left.nodes) == {"here", "there"}
