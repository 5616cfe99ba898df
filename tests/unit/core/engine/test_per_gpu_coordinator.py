"""A coordinator that hears of single GPUs: only who is on them has to move, and nobody comes to them."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause, WithheldGpu
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.protocol.reports import GpusKeptFree, NodePaused, NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.protocol.timers import LastSaveOverdue
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import MIB
from gpunion.engine.coordinator import audit
from gpunion.engine.coordinator.state import CampusState
from tests.builders import Headquarters, a_node, facts, orders, whys

OWN_WORK, SICK = HoldCause.OWN_WORK, HoldCause.SICK


def a_pair(*, nodes: tuple[str, ...] = ("alpha",)) -> Headquarters:
    """Two jobs on the two GPUs of the first node."""
    headquarters = Headquarters()
    headquarters.joins(nodes[0], facts(gpus=2))
    for job in ("one", "two"):
        headquarters.submits(job)
        headquarters.started(f"{job}-e1")
    for node in nodes[1:]:
        headquarters.joins(node, facts(gpus=1, speed=0.5))
    return headquarters.later(20)


def notice(headquarters: Headquarters, gpu: int, notice_s: float = 30.0, **more: object) -> NoticeGiven:
    report = NoticeGiven(deadline_s=headquarters.now_s + notice_s, gpus=(gpu,))
    return replace(report, **more)  # type: ignore[arg-type]


def test_only_the_run_on_the_wanted_gpu_is_flushed_and_told_why() -> None:
    headquarters = a_pair(nodes=("alpha", "beta"))
    gpu = headquarters.run("one-e1").grant.gpu_indices[0]
    decision = headquarters.reported("alpha", notice(headquarters, gpu))
    assert [order.run_id for _, order in orders(decision)] == ["one-e1"]
    assert whys(decision, "one") == [Why.OWNER_WANTS_GPU, Why.CAPTURE_FITS]
    assert whys(decision, "alpha") == [Why.OWNER_WANTS_GPU]
    assert headquarters.run("two-e1").phase is RunPhase.RUNNING
    assert headquarters.node().phase is NodePhase.SHARING
    assert headquarters.state.migrations[headquarters.job("one").migration or ""].destination == "beta"  # type: ignore[index]


def test_own_work_is_told_as_such() -> None:
    headquarters = a_pair(nodes=("alpha", "beta"))
    report = notice(headquarters, 0, cause=OWN_WORK, detail="python (4711)")
    decision = headquarters.reported("alpha", report)
    assert whys(decision, "one") == [Why.OWNER_COMPUTES, Why.CAPTURE_FITS]
    assert "python (4711)" in decision.reasons[0].sentence()


def test_who_waits_for_a_gpu_that_is_kept_free_after_own_work_is_told_for_how_long() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.reported("alpha", NoticeGiven(deadline_s=0.0, gpus=(0,), cause=HoldCause.OWN_WORK))
    headquarters.reported("alpha", NodeReclaimed(freed_after_s=0.0, gpus=(0,)))
    until_s = headquarters.now_s + 60.0
    headquarters.reported("alpha", GpusKeptFree(gpus=(0,), until_s=until_s))
    (gpu,) = headquarters.node("alpha").withheld
    assert gpu.because(until_s - 45.0) == (
        "GPU 0: its owner's own program has ended; it is kept free for 45 s more, as another may follow"
    )
    headquarters.reported("alpha", GpusKeptFree(gpus=(0,)))
    (gpu,) = headquarters.node("alpha").withheld
    assert gpu.because(until_s) == "GPU 0: its owner is computing on it"


def test_another_gpu_of_the_same_node_will_do_as_a_destination() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.submits("one")
    headquarters.started("one-e1")
    headquarters.later(20).reported("alpha", notice(headquarters, 0))
    headquarters.later(1).durable("one-e1-c1", step=20, final=True)
    decision = headquarters.ended("one-e1", EndReason.SAVED, step=20)
    assert [
        (node, order.grant.gpu_indices) for node, order in orders(decision) if isinstance(order, StartRun)
    ] == [("alpha", (1,))]


def test_state_that_cannot_be_sent_within_the_notice_is_sent_after_it() -> None:
    headquarters = a_pair()
    job = headquarters.job("one")
    big = replace(job, cost=replace(job.cost, ship_bytes=4000 * MIB, stall_s=1.0))
    headquarters.state.apply((big,))
    decision = headquarters.reported("alpha", notice(headquarters, 0, 10.0))
    assert Why.CAPTURE_FITS in whys(decision, "one")
    flush_s = next(at_s for timer, at_s in headquarters.timers.items() if isinstance(timer, LastSaveOverdue))
    assert flush_s > headquarters.now_s + 100


def test_a_save_that_does_not_fit_the_notice_is_not_begun() -> None:
    headquarters = a_pair()
    job = headquarters.job("one")
    headquarters.state.apply((replace(job, cost=replace(job.cost, stall_s=60.0)),))
    decision = headquarters.reported("alpha", notice(headquarters, 0, 10.0))
    assert whys(decision, "one") == [Why.OWNER_WANTS_GPU, Why.NOTICE_TOO_SHORT]
    assert orders(decision) == []


def test_a_failed_last_save_does_not_let_a_run_stay_on_a_wanted_gpu() -> None:
    headquarters = a_pair()
    headquarters.reported("alpha", notice(headquarters, 0))
    decision = headquarters.not_saved("one-e1-c1")
    assert headquarters.run("one-e1").phase is RunPhase.LEAVING
    assert orders(decision) == []
    back = headquarters.reported("alpha", NodeResumed(gpus=(0,)))
    assert headquarters.run("one-e1").phase is RunPhase.RUNNING
    assert whys(back, "alpha") == [Why.GPU_BACK]


def test_a_gpu_that_is_not_lent_is_offered_to_nobody_and_the_job_is_told_why() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.reported("alpha", NodePaused(gpus=(0,)))
    headquarters.submits("one")
    assert headquarters.run("one-e1").grant.gpu_indices == (1,)
    decision = headquarters.submits("two")
    assert orders(decision) == []
    sentence = next(r for r in decision.reasons if r.why is Why.WAITING).sentence()
    assert "GPU 0: its owner takes no new guests on it" in sentence
    resumed = headquarters.reported("alpha", NodeResumed(gpus=(0,)))
    assert [order.run_id for _, order in orders(resumed)] == ["two-e1"]


def test_resuming_the_machine_leaves_a_sick_gpu_out() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=3))
    headquarters.reported("alpha", NodePaused(gpus=(0,)))
    headquarters.reported("alpha", notice(headquarters, 1, 0.0, cause=SICK, detail="Xid 48"))
    headquarters.reported("alpha", NodeReclaimed(freed_after_s=0.0, gpus=(1,)))
    headquarters.reported("alpha", NodePaused())
    headquarters.reported("alpha", NodeResumed())
    assert [(gpu.index, gpu.cause) for gpu in headquarters.node().withheld] == [(1, SICK)]


def test_a_run_on_a_sick_gpu_goes_on_elsewhere_and_its_story_says_why() -> None:
    headquarters = a_pair(nodes=("alpha", "beta"))
    headquarters.durable("one-e1-c1", step=15)
    told = headquarters.reported("alpha", notice(headquarters, 0, 0.0, cause=SICK, detail="Xid 79"))
    assert whys(told) == [Why.GPU_SICK]
    decision = headquarters.ended("one-e1", EndReason.SICK_GPU, step=18, detail="GPU 0: Xid 79")
    assert Why.GPU_SICK in whys(decision, "one")
    started = [order for _, order in orders(decision) if isinstance(order, StartRun)]
    assert [(order.run_id, order.restore_step) for order in started] == [("one-e2", 15)]


def test_a_machine_wanted_back_while_one_gpu_is_wanted_sooner_has_two_deadlines() -> None:
    headquarters = a_pair(nodes=("alpha", "beta"))
    headquarters.reported("alpha", NodePaused())
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    node = headquarters.node()
    both = replace(
        node,
        withheld=(
            WithheldGpu(
                index=0, phase=GpuPhase.RECLAIMING, deadline_s=node.deadline_s and node.deadline_s - 50
            ),
        ),
    )
    assert both.wanted_by_s((0,)) == headquarters.now_s + 10
    assert both.wanted_by_s((1,)) == headquarters.now_s + 60


def test_what_was_said_of_gpus_outlives_a_coordinator_and_ends_with_the_agents_memory() -> None:
    headquarters = a_pair()
    headquarters.reported("alpha", notice(headquarters, 0))
    other = headquarters.restarts()
    assert other.state.reclaiming == {"alpha"}
    assert other.node().withheld == headquarters.node().withheld
    other.joins("alpha", facts(gpus=2), incarnation="second")
    assert (other.node().withheld, other.state.reclaiming) == ((), set())


def test_an_unknown_node_that_speaks_of_its_gpus_is_answered_with_a_reason() -> None:
    assert whys(Headquarters().reported("nobody", NodePaused(gpus=(0,)))) == [Why.UNKNOWN_NODE]


def test_the_audit_finds_a_start_on_a_gpu_that_is_not_lent() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    decision = headquarters.submits("job")
    node = a_node(withheld=(WithheldGpu(index=0, phase=GpuPhase.PAUSED),))
    state = CampusState.from_records((*headquarters.state.records(), node))
    assert [violation.invariant for violation in audit.check(state, decision)] == [2]
