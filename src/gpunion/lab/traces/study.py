"""A hazard learned from a trace, and the two honest examinations of it, in steps that can be watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpunion.lab.forecasts.periods import Periods, cut, periods_of
from gpunion.lab.forecasts.prequential import Examination, folds, later_weeks, left_out
from gpunion.lab.traces.lending import Lending
from gpunion.policy.hazard.book import HazardBook, SpansOfNodes

# A period costs about a millisecond a unit. A file of thousands of machines gets fewer, longer periods, so
# that learning from it stays a matter of a minute.
UNIT_PERIODS_MOST = 6_000
PERIODS_LEAST, PERIODS_MOST = 8, 60
# An examination asks four answers of every unit in every period, once a fold: more units would only add time.
UNITS_EXAMINED_MOST = 120

Step = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """What will be done with a trace; `steps` is how often `step` will be called."""

    record: SpansOfNodes
    periods: Periods
    empty: HazardBook
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    later: Examination
    left_out: Examination


def plan_fit(lending: Lending, utc_offset_s: float, *, age_effect: bool = True) -> StudyPlan:
    most = max(PERIODS_LEAST, min(PERIODS_MOST, UNIT_PERIODS_MOST // len(lending.units)))
    periods = periods_of(lending.units, most)
    empty = HazardBook(utc_offset_s=utc_offset_s, age_effect=age_effect)
    return StudyPlan(record=lending.units, periods=periods, empty=empty, steps=periods.count)


def fit(plan: StudyPlan, step: Step) -> HazardBook:
    """Learned the way a coordinator would have: period after period."""
    book = plan.empty
    for (_, end_s), told in zip(plan.periods, cut(plan.record, plan.periods), strict=True):
        book = book.closed(end_s, {unit: [one.part for one in of_unit] for unit, of_unit in told.items()})
        step()
    return book


def plan_score(lending: Lending, utc_offset_s: float, *, age_effect: bool = True) -> StudyPlan:
    """With very many units, evenly spaced ones of them (by name) are examined."""
    names = sorted(lending.units)
    if len(names) > UNITS_EXAMINED_MOST:
        names = [names[number * len(names) // UNITS_EXAMINED_MOST] for number in range(UNITS_EXAMINED_MOST)]
    record = {name: lending.units[name] for name in names}
    periods = periods_of(record)
    return StudyPlan(
        record=record,
        periods=periods,
        empty=HazardBook(utc_offset_s=utc_offset_s, age_effect=age_effect),
        steps=periods.count + len(folds(names)),
    )


def score(plan: StudyPlan, step: Step) -> Scores:
    return Scores(
        later=later_weeks(plan.record, plan.periods, plan.empty, step),
        left_out=left_out(plan.record, plan.periods, plan.empty, step),
    )
