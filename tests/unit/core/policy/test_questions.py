"""The smaller questions: who is next, when to save, where to flee, whether to go home, when to give up."""

from __future__ import annotations

from math import sqrt

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import CheckpointWish, Job, JobPhase, Priority, SaveCost
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.timing import Timing
from gpunion.policy.checkpoint_timing.interval import LEAST_INTERVAL_S, MOST_INTERVAL_S, FixedInterval, Young
from gpunion.policy.destination import BestFit, RandomDestination
from gpunion.policy.hazard.constant import PRIOR_DEPARTURES, PRIOR_EXPOSURE_S, ConstantHazard
from gpunion.policy.homecoming import Never, WayHome, WhenItPays
from gpunion.policy.ordering import PriorityThenAge
from gpunion.policy.policies import BASELINE, BUNDLES, REQUEUE
from gpunion.policy.reclaim import NeverFlush
from gpunion.policy.suspicion import MissedThenFenced
from tests.builders import a_job, a_node, a_spec, a_view, facts


class SteadyHazard:
    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s

    def rate_per_s(self, node: Node, now_s: float) -> float:
        return self._rate_per_s


# --- ordering ---------------------------------------------------------------------------------------


def in_order(*jobs: Job) -> list[str]:
    return [job.id for job in sorted(jobs, key=PriorityThenAge().key)]


def test_a_higher_priority_goes_first_however_late_it_came() -> None:
    low = a_job("low", spec=a_spec(priority=Priority.LOW))
    high = a_job("high", spec=a_spec(priority=Priority.HIGH), submitted_s=99.0)
    assert in_order(low, high) == ["high", "low"]


def test_interrupted_work_goes_before_work_that_never_ran() -> None:
    fresh = a_job("fresh")
    interrupted = a_job("interrupted", phase=JobPhase.MIGRATING, submitted_s=99.0)
    assert in_order(fresh, interrupted) == ["interrupted", "fresh"]


def test_among_equals_the_first_come_goes_first_and_ties_are_stable() -> None:
    jobs = [a_job("late", submitted_s=2.0), a_job("early", submitted_s=1.0)]
    assert in_order(*jobs) == ["early", "late"]
    twins = [a_job("one"), a_job("two")]
    assert in_order(*twins) == in_order(*reversed(twins))


# --- hazard and checkpointing -----------------------------------------------------------------------


def test_a_node_nobody_knows_is_expected_to_leave_once_a_day() -> None:
    assert ConstantHazard().rate_per_s(a_node(), 0.0) == pytest.approx(1 / 86_400)


def test_departures_and_time_without_them_are_evidence() -> None:
    node = a_node(departures=3, joined_s=100.0)
    rate = ConstantHazard().rate_per_s(node, 100.0 + 86_400)
    assert rate == (3 + PRIOR_DEPARTURES) / (86_400 + PRIOR_EXPOSURE_S)
    assert ConstantHazard().rate_per_s(a_node(joined_s=10.0), 0.0) > 0


def test_young_balances_the_stall_against_half_an_interval_of_lost_work() -> None:
    job = a_job(cost=SaveCost(stall_s=2.0))
    young = Young(hazard=SteadyHazard(1e-4))
    assert young.interval_s(job, a_node(), 0.0) == pytest.approx(sqrt(2 * 2.0 / 1e-4))


def test_young_saves_more_often_where_nodes_leave_more_often() -> None:
    calm, wild = (Young(hazard=SteadyHazard(rate)) for rate in (1e-6, 1e-3))
    assert wild.interval_s(a_job(), a_node(), 0.0) < calm.interval_s(a_job(), a_node(), 0.0)


def test_a_save_that_costs_nothing_is_still_not_made_all_the_time() -> None:
    free = a_job(cost=SaveCost(stall_s=0.0))
    assert Young(hazard=SteadyHazard(10.0)).interval_s(free, a_node(), 0.0) == LEAST_INTERVAL_S


@pytest.mark.parametrize(
    ("wish", "interval_s"),
    [
        (CheckpointWish(), 1800.0),
        (CheckpointWish(max_interval_s=60), 60.0),
        (CheckpointWish(min_interval_s=3600), 3600.0),
        (CheckpointWish(max_interval_s=60, min_interval_s=90), 90.0),
        (CheckpointWish(max_interval_s=0.1), LEAST_INTERVAL_S),
    ],
)
def test_a_job_s_wish_bounds_the_interval(wish: CheckpointWish, interval_s: float) -> None:
    job = a_job(spec=a_spec(checkpoint=wish))
    assert FixedInterval().interval_s(job, a_node(), 0.0) == interval_s


def test_nobody_goes_unsaved_for_longer_than_a_shift() -> None:
    assert FixedInterval(every_s=1e9).interval_s(a_job(), a_node(), 0.0) == MOST_INTERVAL_S


# --- destination ------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [BestFit(), RandomDestination()])
def test_nobody_flees_to_where_they_come_from(policy: BestFit) -> None:
    views = [a_view(a_node("alpha", of=facts(speed=9.0))), a_view(a_node("beta"))]
    assert policy.choose(a_job(), views, leaving=NodeId("alpha"), now_s=0.0) == "beta"


@pytest.mark.parametrize("policy", [BestFit(), RandomDestination()])
def test_where_nobody_would_do_no_place_is_kept(policy: BestFit) -> None:
    views = [a_view(a_node("alpha")), a_view(a_node("beta", phase=NodePhase.PAUSED))]
    assert policy.choose(a_job(), views, leaving=NodeId("alpha"), now_s=0.0) is None


def test_the_best_fit_is_what_placement_would_take() -> None:
    views = [a_view(a_node("slow")), a_view(a_node("fast", of=facts(speed=2.0)))]
    assert BestFit().choose(a_job(), views, leaving=NodeId("alpha"), now_s=0.0) == "fast"


def test_a_random_destination_is_the_same_for_the_same_question_and_varies_by_job() -> None:
    views = [a_view(a_node(f"node{index}")) for index in range(6)]
    policy = RandomDestination()
    chosen = [policy.choose(a_job(f"job{n}"), views, leaving=NodeId("x"), now_s=0.0) for n in range(20)]
    again = [policy.choose(a_job(f"job{n}"), views, leaving=NodeId("x"), now_s=0.0) for n in range(20)]
    assert chosen == again
    assert len(set(chosen)) > 1


# --- homecoming -------------------------------------------------------------------------------------


def a_way(remaining_s: float, here: float = 1.0, home: float = 2.0) -> WayHome:
    return WayHome(remaining_s=remaining_s, speed_here=here, speed_home=home, downtime_s=10.0)


def test_going_home_pays_when_it_wins_more_than_three_downtimes() -> None:
    assert WhenItPays().gain_s(a_way(100.0)) == 40.0
    assert WhenItPays().gain_s(a_way(60.0)) is None


def test_going_home_to_a_slower_node_never_pays() -> None:
    assert WhenItPays().gain_s(a_way(1e9, here=2.0, home=1.0)) is None


def test_never_is_never() -> None:
    assert Never().gain_s(a_way(1e9)) is None


# --- suspicion and bundles --------------------------------------------------------------------------


def test_three_missed_heartbeats_are_silence_and_never_later_than_the_lease() -> None:
    assert MissedThenFenced().silent_after_s(Timing(heartbeat_s=2, lease_s=10)) == 6
    assert MissedThenFenced().silent_after_s(Timing(heartbeat_s=5, lease_s=10)) == 10


@pytest.mark.parametrize("autonomy_s", [0.0, 60.0, 3600.0])
def test_nobody_is_given_up_before_its_agent_has_kept_its_promise(autonomy_s: float) -> None:
    timing, terms = Timing(), Terms(autonomy_s=autonomy_s)
    promised_s = timing.lease_s + timing.grace_s + autonomy_s
    assert MissedThenFenced().given_up_after_s(timing, terms) > promised_s * (1 + timing.drift)


def test_bundles_are_found_by_their_names() -> None:
    assert BUNDLES["baseline"] is BASELINE
    assert all(name == bundle.name for name, bundle in BUNDLES.items())
    assert isinstance(REQUEUE.reclaim, NeverFlush)
