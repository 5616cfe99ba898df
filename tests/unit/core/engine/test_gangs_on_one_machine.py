"""Members of a gang on one machine share its wire for their last saves: one saved alone is worth nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gpunion.domain.jobs.job import Priority
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.orders import StartRun, StopRun, TakeCheckpoint
from gpunion.domain.protocol.reports import NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.policies import LIVE
from tests.builders import Headquarters, a_spec, facts, orders
from tests.builders.gangs import RUNS, a_gang_spec


def both_on_alpha(*, gpus: int = 2, terms: Terms | None = None, **more: Any) -> Headquarters:
    headquarters = Headquarters(policies=LIVE)
    headquarters.joins("alpha", facts(gpus=gpus, terms=terms or Terms()))
    headquarters.submits("job", a_gang_spec(**more))
    for run in RUNS:
        headquarters.later(1).started(run)
    return headquarters


def assert_all_save_alike(headquarters: Headquarters, decision: Decision, *runs: str) -> None:
    """All are asked for a last save of the same step, and nobody is promised more than a fair part."""
    asked = {one.run_id: one for _, one in orders(decision) if isinstance(one, TakeCheckpoint)}
    assert not [one for _, one in orders(decision) if isinstance(one, StopRun)]
    assert asked.keys() == set(runs)
    assert all(one.final for one in asked.values())
    assert len({one.at_step for one in asked.values()}) == 1
    [node] = {headquarters.state.nodes[headquarters.run(run).node_id] for run in runs}
    fair_bps = reclaim_cap_bps(node.facts.lent_uplink_bps) / len(runs)
    assert [one.rate_bps for one in asked.values()] == [pytest.approx(fair_bps)] * len(runs)


def test_a_notice_saves_both_and_all_go_on_from_that_step() -> None:
    headquarters = both_on_alpha()
    headquarters.joins("gamma", facts(gpus=2))
    decision = headquarters.later(500).reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 120))
    assert_all_save_alike(headquarters, decision, *RUNS)
    for run in RUNS:
        headquarters.durable(f"{run}-c1", step=700, final=True)
        decision = headquarters.ended(run, EndReason.SAVED, step=700)
    assert [one.restore_step for _, one in orders(decision) if isinstance(one, StartRun)] == [700, 700]


def test_a_notice_for_the_gpu_of_one_leaves_the_other_its_part_of_the_wire() -> None:
    headquarters = both_on_alpha()
    [wanted] = headquarters.run("job-r1-e1").grant.gpu_indices
    notice = NoticeGiven(deadline_s=headquarters.now_s + 620, gpus=(wanted,))
    assert_all_save_alike(headquarters, headquarters.later(500).reported("alpha", notice), *RUNS)


def test_members_are_saved_together_or_none_is_where_not_all_fit_the_notice() -> None:
    headquarters = both_on_alpha()
    headquarters.fires("checkpoint:job-e1")
    rate_bps = reclaim_cap_bps(
        headquarters.state.nodes[headquarters.run("job-e1").node_id].facts.lent_uplink_bps
    )
    alone_s = 60.0
    for run in RUNS:
        headquarters.durable(f"{run}-c1", step=20, shipped_bytes=int(alone_s * rate_bps / 8))
    decision = headquarters.later(500).reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 100))
    assert orders(decision) == []


@pytest.mark.parametrize("terms", [Terms(), Terms(network_bps=1e8)])
def test_both_are_saved_where_one_makes_room_for_a_higher_class(terms: Terms) -> None:
    headquarters = both_on_alpha(priority=Priority.LOW, terms=terms)
    decision = headquarters.later(1000).submits("urgent", a_spec(priority=Priority.HIGH))
    assert_all_save_alike(headquarters, decision, *RUNS)


def test_both_are_saved_when_they_go_home() -> None:
    headquarters = Headquarters()
    headquarters.joins("home", facts(gpus=2, speed=4.0))
    headquarters.submits("job", a_gang_spec(expected_s=50_000))
    for run in RUNS:
        headquarters.started(run)
    headquarters.joins("away", facts(gpus=2, speed=1.0))
    headquarters.reported("home", NodeReclaimed(freed_after_s=0, killed=True))
    for run in RUNS:
        headquarters.ended(run, EndReason.KILLED_BY_OWNER)
    away = ("job-e2", "job-r1-e2")
    for run in away:
        headquarters.later(1).started(run)
    assert_all_save_alike(headquarters, headquarters.reported("home", NodeResumed()), *away)
