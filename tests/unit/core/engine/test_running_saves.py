"""A run is saved from time to time, and what is heard of its saves."""

from __future__ import annotations

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointPhase, CheckpointTrouble
from gpunion.domain.jobs.job import CheckpointWish, DurablePoint
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import SendOrder, SetTimer
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.reports import Capture, CheckpointDurable
from gpunion.domain.protocol.timers import coordinator_timer
from gpunion.domain.resources import MIB
from gpunion.domain.system_tier import Tier
from gpunion.policy.bandwidth import periodic_rate_bps
from tests.builders import GIGABIT_BPS, a_running_job, a_save_order, a_spec, timers_of


def test_a_checkpoint_that_is_due_is_asked_for_at_the_node_s_share_of_its_uplink() -> None:
    headquarters = a_running_job()
    decision = headquarters.fires("checkpoint:job-e1")
    assert decision.effects == (
        SendOrder(
            node_id=NodeId("alpha"),
            order=a_save_order("job-e1", 1, rate_bps=periodic_rate_bps(GIGABIT_BPS, 1)),
        ),
    )
    assert headquarters.run().checkpoints == 1


def test_a_durable_checkpoint_moves_the_durable_step_and_sets_the_next_one() -> None:
    headquarters = a_running_job(checkpoint=CheckpointWish(max_interval_s=60))
    headquarters.fires("checkpoint:job-e1")
    headquarters.later(2).captured("job-e1-c1", step=30, stall_s=3.0)
    assert headquarters.job().cost.stall_s == 3.0  # the first that was measured: before it there was a guess
    decision = headquarters.later(2).durable("job-e1-c1", step=30, shipped_bytes=2 * MIB)
    assert headquarters.job().durable == DurablePoint(
        checkpoint_id=CheckpointId("job-e1-c1"),
        step=30,
        progress=0.03,
        at_s=headquarters.now_s,
        size_bytes=2 * MIB,
    )
    assert headquarters.job().cost.ship_bytes == 2 * MIB
    assert decision.effects == (
        SetTimer(timer=coordinator_timer("checkpoint:job-e1"), at_s=headquarters.now_s + 60),
    )
    assert decision.reasons[0].sentence() == "step 30 is durable (2 MiB shipped)"
    assert headquarters.state.checkpoints[CheckpointId("job-e1-c1")].phase is CheckpointPhase.DURABLE
    assert headquarters.state.unsettled == {}
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c2", step=40, shipped_bytes=4 * MIB)
    assert headquarters.job().cost.ship_bytes == 3 * MIB


def test_a_save_that_arrived_soon_is_told_of_once_with_what_it_cost() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    asked_s = headquarters.now_s
    capture = Capture(stall_s=3.0, capture_s=4.0, tier=Tier.SYSTEM, sent_for_s=6.0)
    headquarters.later(10).durable("job-e1-c1", step=30, capture=capture)
    saved = headquarters.state.checkpoints[CheckpointId("job-e1-c1")]
    assert (saved.phase, saved.captured_s, saved.durable_s) == (
        CheckpointPhase.DURABLE,
        asked_s + 4.0,
        asked_s + 10.0,
    )
    job = headquarters.job()
    assert (job.cost.stall_s, job.cost.capture_s) == (3.0, 4.0)
    assert job.durable is not None
    assert job.durable.tier is Tier.SYSTEM
    headquarters.fires("checkpoint:job-e1")
    mistaken = Capture(stall_s=5.0, capture_s=5.0, tier=Tier.APP, sent_for_s=1e9)
    headquarters.durable("job-e1-c2", step=40, capture=mistaken)
    again = headquarters.state.checkpoints[CheckpointId("job-e1-c2")]
    assert again.captured_s == again.requested_s  # whatever an agent's clock says
    assert headquarters.job().cost.stall_s == 4.0


def test_a_checkpoint_that_fails_is_told_and_the_next_one_set() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    decision = headquarters.not_saved("job-e1-c1", CheckpointTrouble.VAULT_FULL)
    assert (
        decision.reasons[0].sentence()
        == "its save job-e1-c1 did not become durable: there is no room where its saves are kept"
    )
    assert list(timers_of(decision)) == ["checkpoint:job-e1"]


def test_the_durable_step_never_goes_back() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=30)
    headquarters.fires("checkpoint:job-e1")
    decision = headquarters.durable("job-e1-c2", step=20)
    durable = headquarters.job().durable
    assert durable is not None
    assert (durable.checkpoint_id, durable.step) == ("job-e1-c1", 30)
    assert decision.reasons[0].sentence() == (
        "a checkpoint of step 20 was ignored; step 30 is already durable"
    )


def test_a_save_that_went_into_another_place_says_why() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    decision = headquarters.durable("job-e1-c1", step=30, elsewhere="attic: no room")
    assert [reason.sentence() for reason in decision.reasons] == [
        "step 30 is durable (1 MiB shipped)",
        "it was saved in another of its places, since attic: no room",
    ]


def test_a_save_that_no_place_took_says_what_each_of_them_said() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    decision = headquarters.not_saved("job-e1-c1", CheckpointTrouble.VAULT_FULL, "attic: no room")
    assert decision.reasons[0].sentence() == (
        "its save job-e1-c1 did not become durable: "
        "there is no room where its saves are kept (attic: no room)"
    )


def test_word_of_a_checkpoint_that_is_settled_changes_nothing() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=30)
    assert headquarters.captured("job-e1-c1", step=30).empty
    assert headquarters.durable("job-e1-c1", step=31).empty
    assert headquarters.not_saved("job-e1-c1").empty


def test_word_of_a_checkpoint_of_an_unknown_job_changes_nothing() -> None:
    headquarters = a_running_job()
    report = CheckpointDurable(
        run_id=RunId("ghost-e1"),
        job_id=JobId("ghost"),
        epoch=1,
        checkpoint_id=CheckpointId("ghost-e1-c1"),
        step=1,
        progress=0.0,
        size_bytes=1,
        shipped_bytes=1,
        final=False,
    )
    decision = headquarters.reported("alpha", report)
    assert decision.empty


def test_word_of_a_checkpoint_of_a_job_that_is_over_changes_nothing() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    headquarters.ended("job-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.durable("job-e1-c1", step=1).changes == ()


def test_a_checkpoint_the_agent_took_by_itself_is_taken_into_the_books() -> None:
    headquarters = a_running_job()
    headquarters.captured("job-e1-a1", step=12)
    headquarters.durable("job-e1-a1", step=12, final=True)
    checkpoint = headquarters.state.checkpoints[CheckpointId("job-e1-a1")]
    assert (checkpoint.final, checkpoint.phase) == (True, CheckpointPhase.DURABLE)


def test_a_checkpoint_timer_of_a_run_that_is_over_says_nothing() -> None:
    headquarters = a_running_job()
    headquarters.ended("job-e1", EndReason.FINISHED)
    assert headquarters.hears(TimerFired(timer=coordinator_timer("checkpoint:job-e1"))).empty
    assert headquarters.hears(TimerFired(timer=coordinator_timer("checkpoint:ghost-e1"))).empty


def test_a_job_s_wish_bounds_how_often_it_is_saved() -> None:
    headquarters = a_running_job(checkpoint=CheckpointWish(max_interval_s=20))
    assert headquarters.timer_at("checkpoint:job-e1") == headquarters.now_s + 20
    assert a_spec(checkpoint=CheckpointWish(max_interval_s=20)) == headquarters.job().spec
