"""Whose last save a notice is long enough for, and how they share the uplink."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import checkpoint_id
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.protocol.effects import CancelTimer, SendOrder, SetTimer
from gpunion.domain.protocol.orders import TakeCheckpoint
from gpunion.domain.protocol.reports import NoticeGiven
from gpunion.domain.protocol.timers import coordinator_timer
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.runs.migrations import WORD_GUARD_S
from gpunion.policy.bandwidth import reclaim_cap_bps
from tests.builders import GIGABIT_BPS, Headquarters, a_running_job, facts, orders, whys
from tests.builders.reclaims import migration


def test_a_notice_that_is_long_enough_asks_for_a_last_save_by_its_deadline() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    node = headquarters.run().node_id
    other = next(name for name in ("alpha", "beta") if name != node)
    deadline_s = headquarters.now_s + 60
    decision = headquarters.reported(node, NoticeGiven(deadline_s=deadline_s))
    assert decision.effects == (
        SendOrder(
            node_id=node,
            order=TakeCheckpoint(
                run_id=headquarters.run().id,
                job_id=headquarters.job().id,
                epoch=1,
                checkpoint_id=checkpoint_id(headquarters.run().id, 1),
                final=True,
                by_s=deadline_s,
                rate_bps=reclaim_cap_bps(GIGABIT_BPS),
            ),
        ),
        CancelTimer(timer=coordinator_timer("checkpoint:job-e1")),
        SetTimer(timer=coordinator_timer("flush:job-m1"), at_s=deadline_s + WORD_GUARD_S),
    )
    assert whys(decision, "job") == [Why.OWNER_WANTS_NODE, Why.FLUSH_FITS]
    assert (headquarters.job().phase, headquarters.run().phase) == (JobPhase.LEAVING, RunPhase.LEAVING)
    assert migration(headquarters).destination == other
    assert headquarters.node(node).departures == 1


def test_a_notice_shorter_than_capture_falls_back_to_last_durable() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=30)
    node = headquarters.run().node_id
    decision = headquarters.later(5).reported(node, NoticeGiven(deadline_s=headquarters.now_s + 1))
    assert orders(decision) == []
    assert whys(decision, "job") == [Why.OWNER_WANTS_NODE, Why.NOTICE_TOO_SHORT]
    assert "going on from step 30" in decision.reasons[-1].sentence()
    assert headquarters.job().phase is JobPhase.RUNNING
    ended = headquarters.ended("job-e1", EndReason.DEADLINE, step=44)
    assert whys(ended, "job") == [Why.FELL_BACK, Why.PLACED]
    assert migration(headquarters).fell_back
    headquarters.started("job-e2", step=30, restored="job-e1-c1")
    assert migration(headquarters).steps_redone == 14


def test_of_several_guests_on_a_scarce_uplink_the_most_work_per_byte_is_saved() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=3, uplink_bps=60e6))
    for job in ("old", "new", "big"):
        headquarters.submits(job)
        headquarters.started(f"{job}-e1")
        if job == "old":
            headquarters.later(1000)
    headquarters.later(10)
    decision = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 30))
    saved = [order.job_id for _, order in orders(decision)]
    assert saved == ["old"]
    assert Why.FLUSH_FITS in whys(decision, "old")
    assert Why.NOTICE_TOO_SHORT in whys(decision, "new")
    assert Why.NOTICE_TOO_SHORT in whys(decision, "big")


def test_flushes_of_one_node_share_half_of_its_uplink() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    for job in ("one", "two"):
        headquarters.submits(job)
        headquarters.started(f"{job}-e1")
    decision = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    rates = [order.rate_bps for _, order in orders(decision) if isinstance(order, TakeCheckpoint)]
    assert len(rates) == 2
    assert sum(rates) == pytest.approx(reclaim_cap_bps(GIGABIT_BPS))


def test_a_guest_that_starts_during_the_notice_gets_what_the_flushes_leave() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.submits("one")
    headquarters.started("one-e1")
    headquarters.submits("two")
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    decision = headquarters.started("two-e1")
    # One flow alone may have the whole share, so nothing is left for the second: it falls back.
    assert orders(decision) == []
    assert Why.NOTICE_TOO_SHORT in whys(decision, "two")


def test_only_last_saves_of_the_same_node_count_against_its_uplink() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.joins("beta", facts(gpus=2))
    for job in ("one", "two", "three"):
        headquarters.submits(job)
        headquarters.started(f"{job}-e1")
    by_node: dict[str, list[str]] = {"alpha": [], "beta": []}
    for job in ("one", "two", "three"):
        by_node[headquarters.run(f"{job}-e1").node_id].append(job)
    crowded = max(by_node, key=lambda node: len(by_node[node]))
    quiet = min(by_node, key=lambda node: len(by_node[node]))
    headquarters.fires(f"checkpoint:{by_node[crowded][0]}-e1")
    headquarters.reported(quiet, NoticeGiven(deadline_s=headquarters.now_s + 60))
    decision = headquarters.reported(crowded, NoticeGiven(deadline_s=headquarters.now_s + 60))
    rates = [order.rate_bps for _, order in orders(decision) if isinstance(order, TakeCheckpoint)]
    assert sum(rates) == pytest.approx(reclaim_cap_bps(GIGABIT_BPS))


def test_a_state_that_stalled_nobody_teaches_nothing_about_stalls() -> None:
    headquarters = a_running_job()
    stall_s = headquarters.job().cost.stall_s
    headquarters.captured("job-e1-a1", step=7, stall_s=0.0)
    assert headquarters.job().cost.stall_s == stall_s


def test_a_program_that_saves_beside_its_work_needs_the_whole_save_in_a_notice_not_only_its_stall() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    run = headquarters.run()
    headquarters.fires(f"checkpoint:{run.id}")
    headquarters.captured(f"{run.id}-c1", step=10, stall_s=0.1, capture_s=40.0)
    headquarters.durable(f"{run.id}-c1", step=10)
    assert (headquarters.job().cost.stall_s, headquarters.job().cost.save_s) == (0.1, 40.0)
    decision = headquarters.reported(run.node_id, NoticeGiven(deadline_s=headquarters.now_s + 30))
    assert Why.NOTICE_TOO_SHORT in whys(decision)
