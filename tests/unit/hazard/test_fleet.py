from __future__ import annotations

from itertools import pairwise

from gpunion.policy.hazard.answers import profile_of, profiles_of
from gpunion.policy.hazard.buckets import DAY_S, HOUR_S, NO_AGE_EFFECT
from gpunion.policy.hazard.constant import PRIOR_DEPARTURES, PRIOR_EXPOSURE_S
from gpunion.policy.hazard.fleet import AGE_LEAST, AGE_MOST, FleetPrior, fit_fleet
from gpunion.policy.hazard.history import LentSpan, NodeHistory
from gpunion.policy.hazard.profile import Answer
from tests.unit.hazard.records import MONDAY_S, office_owner, restless_owner

NOON, NIGHT = 12, 3


def fleet_of(*owners: list[LentSpan]) -> tuple[list[NodeHistory], float]:
    histories = [NodeHistory().absorbed(spans) for spans in owners]
    return histories, max(history.as_of_s for history in histories)


def test_an_empty_fleet_expects_one_departure_a_day() -> None:
    prior = fit_fleet([NodeHistory()], MONDAY_S)
    assert prior == FleetPrior()
    profile = profile_of(NodeHistory(), prior, MONDAY_S, Answer.CONSTANT)
    assert profile.rate_per_s[0] == PRIOR_DEPARTURES / PRIOR_EXPOSURE_S


def test_a_fleet_of_office_owners_is_busy_at_noon_and_quiet_at_night_and_on_sunday() -> None:
    histories, now_s = fleet_of(*(office_owner(seed, 21) for seed in range(6)))
    shape = fit_fleet(histories, now_s, age_effect=False).merged.shape
    assert shape[NOON] > 10 * shape[NIGHT]
    assert shape[NOON] > 10 * shape[24 + NOON]


def test_a_fleet_without_a_rhythm_gets_a_flat_week() -> None:
    histories, now_s = fleet_of(*(restless_owner(seed, 21) for seed in range(6)))
    prior = fit_fleet(histories, now_s)
    assert min(prior.merged.shape) > 0.6
    assert max(prior.merged.shape) < 1.6


def test_one_restless_node_does_not_drown_the_week_of_the_others() -> None:
    owners = [office_owner(seed, 21) for seed in range(5)]
    histories, now_s = fleet_of(*owners, restless_owner(9, 21, a_day=300.0))
    shape = fit_fleet(histories, now_s, age_effect=False).merged.shape
    assert shape[NOON] > 2 * shape[NIGHT]


def test_a_node_nobody_has_seen_gets_the_week_of_the_fleet() -> None:
    histories, now_s = fleet_of(*(office_owner(seed, 21) for seed in range(6)))
    profile = profile_of(NodeHistory(), fit_fleet(histories, now_s), now_s, Answer.OWN)
    assert profile.rate_per_s[NOON] > 5 * profile.rate_per_s[NIGHT]


def test_a_quiet_node_keeps_its_own_level() -> None:
    busy = [office_owner(seed, 21, a_day=20.0) for seed in range(5)]
    histories, now_s = fleet_of(*busy, office_owner(9, 21, a_day=0.5))
    prior = fit_fleet(histories, now_s)
    for answer in Answer:
        loud = profile_of(histories[0], prior, now_s, answer)
        quiet = profile_of(histories[-1], prior, now_s, answer)
        assert sum(quiet.rate_per_s) < sum(loud.rate_per_s) / 8


def test_own_bins_win_over_the_fleet_only_with_evidence() -> None:
    owners = [office_owner(seed, 21) for seed in range(5)]
    night_owl = [
        LentSpan(
            from_s=span.from_s + 12 * HOUR_S,
            to_s=span.to_s + 12 * HOUR_S,
            departed=span.departed,
            free_since_s=span.free_since_s + 12 * HOUR_S,
        )
        for span in office_owner(77, 27, a_day=20.0)
    ]
    histories, now_s = fleet_of(*owners, night_owl)
    prior = fit_fleet(histories, now_s)
    profiles = profiles_of(histories[-1], prior, now_s)
    evening = 21
    own, fleet = profiles[Answer.OWN].rate_per_s, profiles[Answer.FLEET].rate_per_s
    assert own[evening] / own[NOON] > 3 * fleet[evening] / fleet[NOON]


def test_four_weeks_of_lending_open_the_full_week() -> None:
    """Fridays off: merged weekdays cannot know that, 168 bins can."""
    friday_off = [
        [span for span in office_owner(seed, 70, a_day=12.0) if (span.to_s - MONDAY_S) // DAY_S % 7 != 4]
        for seed in range(4)
    ]
    whole = []
    for spans in friday_off:
        times_s = [spans[0].from_s, *(span.to_s for span in spans)]
        whole.append(
            [
                LentSpan(from_s=begin, to_s=end, departed=True, free_since_s=begin)
                for begin, end in pairwise(times_s)
                if end > begin
            ]
        )
    histories, now_s = fleet_of(*whole)
    prior = fit_fleet(histories, now_s, age_effect=False)
    for answer in (Answer.OWN, Answer.FLEET):
        rates = profile_of(histories[0], prior, now_s, answer).rate_per_s
        assert rates[4 * 24 + NOON] < rates[2 * 24 + NOON] / 2
    young = profile_of(NodeHistory(), prior, now_s, Answer.FLEET).rate_per_s
    assert young[4 * 24 + NOON] == young[2 * 24 + NOON]


def test_machines_lost_young_have_an_effect_of_age_within_its_bounds() -> None:
    spans = [
        LentSpan(from_s=at_s, to_s=at_s + (60.0 if number % 4 else DAY_S), departed=True, free_since_s=at_s)
        for number in range(60)
        for at_s in [MONDAY_S + number * 2 * DAY_S / 6]
    ]
    histories, now_s = fleet_of(spans, spans)
    factor = fit_fleet(histories, now_s).age_factor
    assert factor[0] == AGE_MOST
    assert min(factor) == AGE_LEAST
    assert fit_fleet(histories, now_s, age_effect=False).age_factor == NO_AGE_EFFECT
