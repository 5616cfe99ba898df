"""Fits and scores as plain values: what `--json` prints and what the tables and plots are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpunion.lab.forecasts.prequential import Examination, NodeScore
from gpunion.lab.traces.lending import Lending
from gpunion.lab.traces.study import Scores, StudyPlan
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.buckets import AGE_FROM_S, DAY_S, HOUR_S, hours_of
from gpunion.policy.hazard.history import LentSpan, departure_cell
from gpunion.policy.hazard.profile import Answer
from gpunion.policy.hazard.scoring import brier, reliability

Shown = dict[str, Any]
DIGITS = 6


def shown_fit(lending: Lending, book: HazardBook) -> Shown:
    return {
        **_header(lending, book.utc_offset_s),
        "fleet": {
            "age_from_s": list(AGE_FROM_S),
            "age_factor": _rounded(book.prior.age_factor),
            "weekday_shape": _rounded(book.prior.merged.shape[:24]),
            "weekend_shape": _rounded(book.prior.merged.shape[24:]),
            "spread": round(book.prior.merged.spread, DIGITS),
        },
        "hours": _shown_hours(lending, book.utc_offset_s),
        "units": [_shown_unit(unit, lending.units[unit], book) for unit in lending.units],
    }


def _shown_hours(lending: Lending, utc_offset_s: float) -> list[Shown]:
    """What was seen at each hour of the day, as it is: no model, no fading."""
    departures, lent_s, whole_days = [0] * 24, [0.0] * 24, 0
    for spans in lending.units.values():
        for span in spans:
            days = int((span.to_s - span.from_s) // DAY_S)
            for hour, from_s, to_s in hours_of(span.from_s + days * DAY_S, span.to_s, utc_offset_s):
                lent_s[hour % 24] += to_s - from_s
            whole_days += days
            if span.departed:
                departures[departure_cell(span, utc_offset_s)[0] % 24] += 1
    return [
        {"departures": seen, "lent_h": round(seconds / HOUR_S + whole_days, 3)}
        for seen, seconds in zip(departures, lent_s, strict=True)
    ]


def _shown_unit(unit: str, spans: tuple[LentSpan, ...], book: HazardBook) -> Shown:
    profile = book.profile(unit)
    return {
        "unit": unit,
        "answer": profile.answer.value,
        "departures": sum(span.departed for span in spans),
        "lent_h": round(sum(span.to_s - span.from_s for span in spans) / HOUR_S, 3),
        "rate_per_day": _rounded(rate * DAY_S for rate in profile.rate_per_s),
        "survival_8h_from_monday_9": round(_survival(book, unit), DIGITS),
    }


def _survival(book: HazardBook, unit: str) -> float:
    """Of a machine that has just become free on a Monday at nine, local time."""
    monday_s = 4 * DAY_S + 9 * HOUR_S - book.utc_offset_s
    return book.profile(unit).survival(monday_s, 8 * HOUR_S, free_since_s=monday_s)


def shown_scores(lending: Lending, plan: StudyPlan, scores: Scores) -> Shown:
    return {
        **_header(lending, plan.empty.utc_offset_s),
        "units_examined": len(plan.record),
        "age_effect": plan.empty.age_effect,
        "period_h": round(plan.periods.each_s / HOUR_S, 3),
        "first_part_h": round((plan.periods.later_from_s - plan.periods.from_s) / HOUR_S, 3),
        "later": _shown_examination(scores.later),
        "left_out": _shown_examination(scores.left_out),
    }


def _shown_examination(examination: Examination) -> Shown:
    units = {unit: _shown_score(score) for unit, score in sorted(examination.nodes.items())}
    gains = [score["gain_nats"] for score in units.values() if score["gain_nats"] is not None]
    return {
        "departures": examination.departures,
        "gain_nats": round(examination.gain(), DIGITS),
        "gain_over_best_constant_nats": round(examination.strict_gain(), DIGITS),
        "worst_unit_gain_nats": min(gains, default=None),
        "gain_of_answer_nats": {answer.value: round(examination.gain(answer), DIGITS) for answer in Answer},
        "units": units,
        "horizons": [_shown_horizon(examination, horizon_s) for horizon_s in examination.forecasts],
    }


def _shown_score(score: NodeScore) -> Mapping[str, Any]:
    def each(nats: float) -> float | None:
        return round(nats / score.departures, DIGITS) if score.departures else None

    return {
        "departures": score.departures,
        "lent_h": round(score.lent_s / HOUR_S, 3),
        "gain_nats": each(score.nats[None] - score.nats[Answer.CONSTANT]),
        "gain_over_best_constant_nats": each(score.nats[None] - score.best_constant),
        # Where nothing departed there is no "per departure"; the total still says who was nearer to zero.
        "total_gain_nats": round(score.nats[None] - score.nats[Answer.CONSTANT], DIGITS),
    }


def _shown_horizon(examination: Examination, horizon_s: float) -> Shown:
    forecasts = examination.forecasts[horizon_s]
    found = brier(forecasts)
    return {
        "horizon_h": horizon_s / HOUR_S,
        "forecasts": found.forecasts,
        "brier": round(found.score, DIGITS),
        "constant_brier": round(found.constant_score, DIGITS),
        "skill": round(found.skill, DIGITS),
        "reliability": [
            {
                "forecasts": decile.forecasts,
                "foretold": round(decile.foretold, DIGITS),
                "seen": round(decile.seen, DIGITS),
            }
            for decile in reliability(forecasts)
        ],
    }


def _header(lending: Lending, utc_offset_s: float) -> Shown:
    return {
        "format": lending.format,
        "departure": lending.departure_word,
        "utc_offset_h": utc_offset_s / HOUR_S,
        "units_read": len(lending.units),
        "departures": lending.departures,
    }


def _rounded(values: Any) -> list[float]:
    return [round(value, DIGITS) for value in values]
