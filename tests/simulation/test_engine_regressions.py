"""What the simulator once found in the engine, each as the smallest scenario that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.commit import SavedAgent
from gpunion.domain.protocol.frames import LeaseGrant, OrderFrame, Welcome
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.resources import Capacity
from gpunion.domain.timing import Timing
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.sim.run import Outcome, run_scenario
from gpunion.sim.scenario.file import parse_scenario

TWO_NODES = """
horizon_s = 3000.0
[troubles]
heal_s = {heal_s}
[[node]]
id = "alpha"
speed = 1.5
uplink_mbps = {uplink_mbps}
[[node]]
id = "beta"
{terms}
[[job]]
id = "job"
submit_s = 50.0
steps = 300
{job}
"""


def run(
    more: str, *, job: str = "", heal_s: float = 400.0, uplink_mbps: float = 1000.0, terms: str = ""
) -> Outcome:
    text = TWO_NODES.format(job=job, heal_s=heal_s, uplink_mbps=uplink_mbps, terms=terms) + more
    return run_scenario(parse_scenario(text, name="regression", folder=Path()))


def test_a_guest_that_heeds_sigterm_inside_a_notice_has_not_failed() -> None:
    outcome = run(
        """
[[owner]]
node = "*"
acts = [{ at_s = 100, do = "reclaim", notice_s = 20 }, { at_s = 200, do = "resume" }]
""",
        job="answers_saves = false",
    )
    assert outcome.violations == ()
    assert outcome.jobs["job"].phase == "succeeded"


def test_a_start_that_was_given_up_does_not_happen_when_the_node_comes_back() -> None:
    outcome = run('[[trouble]]\nat_s = 49.9\nkind = "partition"\nnode = "alpha"\nfor_s = 40')
    assert outcome.violations == ()
    assert outcome.jobs["job"].phase == "succeeded"


def test_an_agent_that_was_away_at_the_deadline_sends_nothing_when_it_returns() -> None:
    outcome = run(
        """
[[owner]]
node = "alpha"
acts = [{ at_s = 100, do = "reclaim", notice_s = 20 }, { at_s = 200, do = "resume" }]
[[trouble]]
at_s = 110
kind = "agent_crash"
node = "alpha"
for_s = 30
""",
        job="state_mib = 100",
        uplink_mbps=100,
    )
    assert outcome.violations == ()
    assert outcome.jobs["job"].phase == "succeeded"


@pytest.mark.parametrize("seed", range(3))
def test_a_machine_that_reboots_inside_a_notice_belongs_to_its_owner(seed: int) -> None:
    """Its clock says nothing of the deadline any more, and what it was sending stays unsent."""
    text = (
        TWO_NODES.format(job="state_mib = 200", heal_s=400, uplink_mbps=60, terms="")
        + """
[[owner]]
node = "alpha"
acts = [{ at_s = 100, do = "reclaim", notice_s = 120 }, { at_s = 300, do = "resume" }]
[[trouble]]
at_s = 110
kind = "node_crash"
node = "alpha"
for_s = 20
"""
    )
    text = text.replace("[troubles]", "[troubles]\nclock_jumps = true")
    outcome = run_scenario(parse_scenario(text, name="regression", folder=Path(), seed=seed))
    assert outcome.violations == ()


def test_two_that_go_home_at_once_share_the_uplink_one_after_the_other() -> None:
    text = """
horizon_s = 3000.0
[troubles]
heal_s = 400.0
[[node]]
id = "fast-"
count = 2
speed = 2.0
[[node]]
id = "slow"
gpus = 2
speed = 0.5
uplink_mbps = 100
[[job]]
id = "job-"
count = 2
steps = 2000
state_mib = 200
submit_s = 10
[[owner]]
node = "fast-*"
acts = [{ at_s = 100, do = "reclaim", notice_s = 60 }, { at_s = 300, do = "resume" }]
"""
    outcome = run_scenario(parse_scenario(text, name="regression", folder=Path()))
    assert outcome.violations == ()
    assert all(job.moves == 2 for job in outcome.jobs.values())


def test_an_order_overtaken_by_a_lease_waits_to_be_sent_again() -> None:
    """It may be from before the node was given up, and the lease from after."""
    facts = NodeFacts(lab="", capacity=Capacity(gpus=(), cpus=1, memory_bytes=1, uplink_bps=1e9))
    station = PureAgent(
        node_id=NodeId("alpha"), facts=facts, saved=SavedAgent(incarnation="i"), timing=Timing()
    )
    order = StopRun(run_id=RunId("job-e1"), job_id=JobId("job"), epoch=1)
    station.frame_arrived(
        0.0, Welcome(term=1, orders_before=0, ack=0, timing=Timing(), sent_s=5.0, hello_sent_s=0.0)
    )
    station.frame_arrived(1.0, LeaseGrant(term=1, heartbeat_sent_s=0.0, lease_s=10.0, ack=0, sent_s=20.0))
    late = OrderFrame(term=1, seq=1, ack=0, sent_s=10.0, order=order)
    fresh = OrderFrame(term=1, seq=1, ack=0, sent_s=21.0, order=order)
    assert station.frame_arrived(2.0, late) == []
    assert [seq for _, seq in station.frame_arrived(3.0, fresh)] == [1]


def test_a_deadline_given_before_the_first_lease_of_a_new_agent_is_kept_by_the_keeper() -> None:
    """The agent restarts without a lease, hears its owner, and dies again before the deadline."""
    outcome = run(
        """
[[owner]]
node = "alpha"
acts = [{ at_s = 104, do = "reclaim", notice_s = 4 }, { at_s = 200, do = "resume" }]
[[trouble]]
at_s = 100
kind = "partition"
node = "alpha"
for_s = 60
[[trouble]]
at_s = 101
kind = "agent_crash"
node = "alpha"
for_s = 2
[[trouble]]
at_s = 105
kind = "agent_crash"
node = "alpha"
for_s = 20
"""
    )
    assert outcome.violations == ()
