"""What an agent or a program did for its owner before the coordinator could ask for it."""

from __future__ import annotations

from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.migration import Cause
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.reports import NodeReclaimed, NoticeGiven
from gpunion.domain.reasons.reason import Why
from tests.builders import Headquarters, a_running_job, whys
from tests.builders.reclaims import migration, two_nodes


def test_a_save_the_agent_took_by_itself_is_as_good_as_the_one_asked_for() -> None:
    headquarters, _ = two_nodes()
    headquarters.not_saved("job-e1-c1", CheckpointTrouble.SUPERSEDED)
    headquarters.captured("job-e1-a1", step=60)
    headquarters.ended("job-e1", EndReason.SAVED, step=60)
    assert headquarters.job().epoch == 1
    decision = headquarters.durable("job-e1-a1", step=60, final=True)
    assert whys(decision, "job") == [Why.SAVED, Why.PLACED]
    assert not migration(headquarters).fell_back


def test_a_save_the_agent_took_by_itself_that_is_durable_already_needs_no_waiting() -> None:
    headquarters, _ = two_nodes()
    headquarters.not_saved("job-e1-c1", CheckpointTrouble.SUPERSEDED)
    headquarters.durable("job-e1-a1", step=60, final=True)
    decision = headquarters.ended("job-e1", EndReason.SAVED, step=60)
    assert whys(decision, "job") == [Why.PLACED]
    assert not migration(headquarters).fell_back


def test_a_program_that_saved_itself_in_a_notice_too_short_to_ask_is_waited_for() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    node = headquarters.run().node_id
    headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + 1))
    headquarters.captured("job-e1-a1", step=20)
    headquarters.ended("job-e1", EndReason.SAVED, step=20)
    assert headquarters.job().epoch == 1
    headquarters.durable("job-e1-a1", step=20, final=True)
    assert headquarters.job().epoch == 2


def test_a_guest_the_agent_ended_alone_is_told_of_as_the_owner_s_doing() -> None:
    headquarters = a_running_job()
    decision = headquarters.ended("job-e1", EndReason.DEADLINE)
    assert whys(decision, "job") == [Why.OWNER_WANTS_NODE, Why.PLACED]
    assert migration(headquarters).cause is Cause.OWNER_RECLAIM


def test_a_guest_that_saved_itself_during_a_notice_left_for_the_owner() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    headquarters.ended("job-e1", EndReason.SAVED)
    assert migration(headquarters).cause is Cause.OWNER_RECLAIM


def test_a_killed_guest_goes_elsewhere_and_its_user_is_told_who_did_it() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    node = headquarters.run().node_id
    decision = headquarters.reported(node, NodeReclaimed(freed_after_s=0.0, killed=True))
    assert whys(decision) == [Why.OWNER_KILLED]
    assert headquarters.node(node).departures == 1
    ended = headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER)
    assert whys(ended, "job") == [Why.OWNER_KILLED, Why.PLACED]
    assert headquarters.run("job-e2").node_id != node
    assert migration(headquarters).cause is Cause.OWNER_KILL
