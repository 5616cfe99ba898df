"""A run whose program has ended, while what it made is on its way: shown, told once, and without its GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.account import Quota, user_account
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import JobPhase, Priority
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.events import NodeHeard, ProgramEnded, QuotaSet, TimerFired
from gpunion.domain.protocol.frames import Finishing, Heartbeat
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.protocol.reports import NoticeGiven
from gpunion.domain.protocol.timers import coordinator_timer
from gpunion.domain.reasons.reason import Why, told
from gpunion.domain.resources import GIB, Request
from tests.builders import Campus, Headquarters, a_campus, a_running_job, a_spec, facts, orders, whys
from tests.builders.gangs import a_running_gang

ALPHA, RUN = NodeId("alpha"), RunId("job-e1")
FULL, AWAY = CheckpointTrouble.VAULT_FULL.value, CheckpointTrouble.VAULT_UNAVAILABLE.value
LARGE = Request(memory_bytes=3 * GIB)


def ended(headquarters: Headquarters, run: str = "job-e1", node: str = "alpha", **more: Any) -> Decision:
    return headquarters.hears(ProgramEnded(node_id=NodeId(node), note=Finishing(run_id=RunId(run), **more)))


def sentence(decision: Decision) -> str:
    [reason] = [one for one in decision.reasons if one.subject == "job"]
    return told(reason)


def test_that_its_program_has_ended_is_told_once_and_nobody_asks_it_to_save() -> None:
    headquarters = a_running_job()
    decision = ended(headquarters)
    assert whys(decision, "job") == [Why.OUTPUT_ON_ITS_WAY]
    assert headquarters.timer_at("checkpoint:job-e1") is None
    assert headquarters.run().over_s == headquarters.now_s
    assert ended(headquarters.later(2)).empty
    assert headquarters.hears(
        TimerFired(timer=coordinator_timer("checkpoint:job-e1"))
    ).empty  # a save that it broke off had set it


def test_why_no_place_takes_it_is_told_with_what_to_do_and_again_only_when_it_is_another_reason() -> None:
    headquarters = a_running_job()
    words = sentence(ended(headquarters, trouble=FULL, detail="campus: no space left"))
    assert "its program has ended on alpha" in words
    assert "there is no room where its saves are kept (campus: no space left)" in words
    assert "Next: the operator of the campus's vault makes room there" in words
    assert ended(headquarters.later(2), trouble=FULL, detail="campus: 3 bytes left").empty
    assert ended(headquarters.later(2)).empty  # an agent that was started anew has not tried yet
    assert "brings it back" in sentence(ended(headquarters.later(2), trouble=AWAY))


@pytest.mark.parametrize(
    ("trouble", "what_to_do"),
    [
        (CheckpointTrouble.VAULT_FULL, "the operator of hdd, attic makes room there"),
        (CheckpointTrouble.DISK_FULL, "the owner of alpha makes room on its disk"),
        (CheckpointTrouble.DISK_FAILED, "the owner of alpha looks after its disk"),
        ("of_a_newer_agent", "ask the operator of hdd, attic"),
    ],
)
def test_who_has_to_do_something_is_named(trouble: str, what_to_do: str) -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(places=("hdd", "attic")))
    headquarters.submits(spec=a_spec(places=("hdd", "attic")))
    headquarters.started()
    assert f"Next: {what_to_do}" in sentence(ended(headquarters, trouble=trouble))


def test_a_job_that_waits_gets_the_gpus_at_once_and_not_the_memory() -> None:
    headquarters = a_running_job()
    headquarters.submits("next")
    assert headquarters.job("next").phase is JobPhase.PENDING
    [(_, order)] = orders(ended(headquarters))
    assert isinstance(order, StartRun)
    assert (order.job_id, order.grant.gpu_indices) == ("next", headquarters.run().grant.gpu_indices)
    assert headquarters.run().living

    headquarters = Headquarters()
    headquarters.joins("alpha", facts(memory_gib=4))
    for name in ("job", "next"):
        headquarters.submits(name, a_spec(request=LARGE))
    headquarters.started()
    assert orders(ended(headquarters)) == []
    assert headquarters.ended("job-e1", EndReason.FINISHED).effects
    assert headquarters.run("next-e1").living


def test_its_gpus_are_counted_once_for_its_user_and_once_for_the_machine() -> None:
    headquarters = a_running_job()
    sam = user_account(headquarters.job().spec.owner)
    headquarters.hears(QuotaSet(quota=Quota(id=sam, gpus=1, set_s=0.0)))
    headquarters.submits("next")
    assert headquarters.state.memories.accounts[sam].held_gpus == 1
    began_s = headquarters.run().started_s
    assert began_s is not None
    ended(headquarters.later(10))
    assert headquarters.run("next-e1").living
    assert headquarters.state.memories.accounts[sam].held_gpus == 1
    held_s = headquarters.now_s - began_s
    assert headquarters.node().lent_gpu_s == pytest.approx(held_s)
    headquarters.later(100).ended("job-e1", EndReason.FINISHED)
    assert headquarters.node().lent_gpu_s == pytest.approx(held_s)
    assert headquarters.state.memories.accounts[sam].held_gpus == 1
    headquarters.ended("next-e1", EndReason.REFUSED)


def test_a_coordinator_that_was_started_anew_still_knows_whose_gpus_are_free() -> None:
    headquarters = a_running_job()
    ended(headquarters)
    headquarters = headquarters.restarts()
    assert ended(headquarters).empty
    headquarters.submits("next")
    assert headquarters.run("next-e1").living


def test_an_owner_who_wants_the_gpu_back_does_not_drive_out_what_is_not_on_it_any_more() -> None:
    headquarters = a_running_job()
    ended(headquarters)
    notice = NoticeGiven(deadline_s=headquarters.now_s + 60, gpus=headquarters.run().grant.gpu_indices)
    headquarters.reported("alpha", notice)
    assert headquarters.run().phase is RunPhase.RUNNING
    assert headquarters.job().migration is None


def test_nobody_more_urgent_makes_room_by_driving_out_what_has_ended() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(memory_gib=4))
    headquarters.submits(spec=a_spec(request=LARGE, priority=Priority.LOW))
    headquarters.started()
    ended(headquarters)
    headquarters.submits("urgent", a_spec(request=LARGE, priority=Priority.HIGH))
    assert headquarters.run().phase is RunPhase.RUNNING


def test_what_it_made_may_be_lost_all_the_same_and_then_it_runs_again_like_any_other() -> None:
    headquarters = a_running_job()
    headquarters.submits("next")
    ended(headquarters, trouble=FULL)
    headquarters.started("next-e1")
    headquarters.later(3600).ended("job-e1", EndReason.OUTPUT_LOST, detail="no room")
    assert headquarters.job().phase is JobPhase.MIGRATING
    headquarters.ended("next-e1", EndReason.FINISHED)
    headquarters.later(60).fires("replan")
    assert headquarters.run("job-e2").has_gpus


def test_a_member_of_a_gang_keeps_its_gpus_for_all_run_again_together_or_none() -> None:
    headquarters = a_running_gang("alpha", "beta")
    run = next(run for run in headquarters.state.runs.values() if run.node_id == ALPHA)
    assert whys(ended(headquarters, run.id), run.job_id) == [Why.OUTPUT_ON_ITS_WAY]
    assert headquarters.run(run.id).held_gpus == run.grant.gpu_indices
    headquarters.submits("next")
    assert headquarters.job("next").phase is JobPhase.PENDING


def test_a_machine_speaks_for_its_own_runs_only_and_for_those_that_live() -> None:
    headquarters = a_running_job(nodes=("alpha", "beta"))
    assert ended(headquarters, node="beta").empty
    assert ended(headquarters, "nobody-e1").empty
    headquarters.ended("job-e1", EndReason.FINISHED)
    assert ended(headquarters, trouble=FULL).empty


def test_an_agent_of_before_says_it_when_it_is_asked_to_save_and_its_gpus_are_free_too() -> None:
    headquarters = a_running_job()
    headquarters.submits("next")
    headquarters.fires("checkpoint:job-e1")
    headquarters.not_saved("job-e1-c1", CheckpointTrouble.OVER)
    assert headquarters.run("next-e1").living


@pytest.fixture
def campus() -> Campus:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=10_000))
    campus.advance(10)
    return campus


def heard(campus: Campus, *notes: Finishing) -> list[Any]:
    beat = Heartbeat(sent_s=campus.now_s, ack=0, finishing=notes)
    return [event for event, _ in campus.station.frame_arrived(campus.now_s, ALPHA, beat)]


def test_what_is_sent_within_a_heartbeat_is_not_worth_writing_down(campus: Campus) -> None:
    assert heard(campus, Finishing(run_id=RUN)) == []
    assert heard(campus) == []
    assert heard(campus, Finishing(run_id=RUN)) == []
    assert heard(campus, Finishing(run_id=RUN)) == [ProgramEnded(node_id=ALPHA, note=Finishing(run_id=RUN))]


def test_a_trouble_is_written_down_at_once_and_the_lease_is_renewed_as_ever(campus: Campus) -> None:
    strange = Finishing(run_id=RunId("x-e1"), trouble=FULL)
    full = Finishing(run_id=RUN, trouble=FULL, detail="campus: full")
    [event] = heard(campus, full, strange)
    assert event == ProgramEnded(node_id=ALPHA, note=full)
    assert campus.station.links[ALPHA].replies
    campus.station.committed(campus.station.decide(campus.now_s, event))
    assert heard(campus, full, strange) == []


def test_a_silent_machine_is_heard_before_what_it_says_of_a_program(campus: Campus) -> None:
    event = campus.station.due(campus.now_s + 60)
    assert event is not None
    campus.station.committed(campus.station.decide(campus.now_s + 60, event))
    first, then = heard(campus, Finishing(run_id=RUN, trouble=FULL))
    assert first == NodeHeard(node_id=ALPHA)
    assert isinstance(then, ProgramEnded)
