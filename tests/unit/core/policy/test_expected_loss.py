"""Where a job goes when seconds expected to be lost decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp

from gpunion.domain.environment import PackageList
from gpunion.domain.ids import CheckpointId, NodeId
from gpunion.domain.jobs.job import DurablePoint
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.policy.expected_loss import UNKNOWN_WORK_S, ExpectedLoss, remaining_s
from tests.builders import a_job, a_node, a_spec, a_view, facts


@dataclass(frozen=True)
class ByName:
    """Departures per hour of every node."""

    per_hour: dict[str, float]

    def rate_per_s(self, node: Node, now_s: float) -> float:
        return self.per_hour.get(node.id, 0.01) / 3600

    def upper_rate_per_s(self, node: Node, now_s: float) -> float:
        return self.rate_per_s(node, now_s)

    def survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return exp(-self.rate_per_s(node, now_s) * horizon_s)

    lower_survival = survival


def policy(**per_hour: float) -> ExpectedLoss:
    return ExpectedLoss(hazard=ByName(per_hour))


def hour_of_work(**changes):
    return a_job(spec=a_spec(expected_s=3600.0), **changes)


def test_of_equal_machines_the_one_that_stays_is_taken():
    views = [a_view(a_node("beta")), a_view(a_node("gamma"))]
    chosen = policy(beta=4.0, gamma=0.1).choose(hour_of_work(), views, leaving=NodeId("alpha"), now_s=0.0)
    assert chosen == "gamma"


def test_an_end_its_owner_has_announced_counts_as_certain():
    views = [a_view(a_node("beta", known_end_s=1800.0)), a_view(a_node("gamma", known_end_s=7200.0))]
    chosen = policy(beta=0.01, gamma=0.5).choose(hour_of_work(), views, leaving=None, now_s=0.0)
    assert chosen == "gamma"


def test_a_much_faster_machine_is_worth_the_risk_of_leaving_again():
    views = [a_view(a_node("beta", of=facts(speed=4.0))), a_view(a_node("gamma"))]
    chosen = policy(beta=1.0, gamma=0.1).choose(hour_of_work(), views, leaving=None, now_s=0.0)
    assert chosen == "beta"


def test_it_never_goes_where_it_came_from_nor_where_it_may_not():
    views = [a_view(a_node("alpha")), a_view(a_node("beta", phase=NodePhase.PAUSED))]
    assert policy().choose(hour_of_work(), views, leaving=NodeId("alpha"), now_s=0.0) is None


def test_another_owners_machine_is_preferred_to_one_more_of_the_same():
    views = [
        a_view(a_node("alpha", of=facts(lab="here"))),
        a_view(a_node("beta", of=facts(lab="here"))),
        a_view(a_node("gamma", of=facts(lab="there"))),
    ]
    assert policy().choose(hour_of_work(), views, leaving=NodeId("alpha"), now_s=0.0) == "gamma"


def test_several_at_once_do_not_fight_for_the_best_place():
    jobs = [hour_of_work(id="one"), hour_of_work(id="two")]
    views = [a_view(a_node("beta", of=facts(speed=2.0))), a_view(a_node("gamma"))]
    planned = policy().plan(jobs, views, leaving=NodeId("alpha"), now_s=0.0)
    assert sorted(planned.values()) == ["beta", "gamma"]


def test_a_machine_with_room_for_two_may_take_both():
    jobs = [hour_of_work(id="one"), hour_of_work(id="two")]
    views = [a_view(a_node("beta", of=facts(gpus=2, speed=2.0))), a_view(a_node("gamma"))]
    planned = policy().plan(jobs, views, leaving=NodeId("alpha"), now_s=0.0)
    assert sorted(planned.values()) == ["beta", "beta"]


def test_where_its_environment_lies_ready_is_preferred_and_a_safer_machine_still_more():
    packages = PackageList(name="pytorch", digest="d", requirements="torch==2.13.0\n")
    job = hour_of_work(packages=packages)
    cold, warm = a_view(a_node("beta")), a_view(a_node("gamma"), installed=frozenset({"d"}))
    gpus = cold.node.facts.capacity.gpus
    for loss in (policy(), policy(beta=0.01, gamma=0.011)):
        assert loss.choose(job, [cold, warm], leaving=None, now_s=0.0) == "gamma"
        assert loss.plan([job], [cold, warm], leaving=None, now_s=0.0) == {job.id: "gamma"}
        assert loss.score(job, warm, gpus, 0.0) > loss.score(job, cold, gpus, 0.0)
    risky = policy(beta=0.01, gamma=6.0)
    assert risky.choose(job, [cold, warm], leaving=None, now_s=0.0) == "beta"
    others = replace(job, packages=None)
    assert policy().score(others, warm, gpus, 0.0) == policy().score(others, cold, gpus, 0.0)


def test_what_is_left_to_do_is_what_was_expected_less_what_is_durable():
    saved = DurablePoint(checkpoint_id=CheckpointId("c"), step=1, progress=0.75, at_s=0.0)
    assert remaining_s(hour_of_work(durable=saved)) == 900.0
    assert remaining_s(a_job()) == UNKNOWN_WORK_S


def test_placing_keeps_whole_machines_whole_where_it_costs_little():
    loss = policy()
    small, large = a_view(a_node("beta")), a_view(a_node("gamma", of=facts(gpus=8)))
    job = hour_of_work()
    gpus = small.node.facts.capacity.gpus
    assert loss.score(job, small, gpus, 0.0) > loss.score(job, large, gpus, 0.0)
    assert "least time" in loss.because(job, small, gpus)
