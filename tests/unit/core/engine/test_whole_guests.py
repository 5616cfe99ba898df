"""Jobs that are saved whole: where they may go, what bringing them back teaches, when it is given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import CheckpointWish, DurablePoint, Job
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import Node, NodeFacts
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.effects import ShipCheckpoint
from gpunion.domain.protocol.events import GuestNotDumped, GuestSaved, GuestStarted
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.protocol.reports import CheckpointCaptured, CheckpointFailed, NoticeGiven, RunStarted
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import (
    TRIES_KEPT,
    UNTRIED,
    RestoreTried,
    SystemAbility,
    Tier,
    differing,
    learned,
)
from gpunion.engine.coordinator.runs.whole_guests import DUMP_PATIENCE_S
from gpunion.policy.placement.filters import refusal
from gpunion.policy.placement.pick import choose_gpus
from tests.builders import (
    Headquarters,
    LoneAgent,
    a_job,
    a_node,
    a_save_order,
    a_spec,
    a_start,
    a_view,
    an_agent_with_a_guest,
    deeds,
    facts,
    orders,
    reports,
    some_gpus,
    whys,
)

OLD, NEW, ARM = "x86_64/criu-4.1", "x86_64/criu-4.2", "aarch64/criu-4.2"
WHOLE = CheckpointWish(tier=Tier.SYSTEM)
RUN, C1 = RunId("job-e1"), CheckpointId("job-e1-c1")


def able(kind: str = NEW) -> NodeFacts:
    return replace(facts(), system=SystemAbility(able=True, why_not="", kind=kind))


def untried() -> NodeFacts:
    return replace(facts(), system=UNTRIED)


def dumped(kind: str = NEW) -> Job:
    point = DurablePoint(checkpoint_id=C1, step=7, progress=0.1, at_s=5.0, tier=Tier.SYSTEM, kind=kind)
    return a_job(spec=a_spec(checkpoint=WHOLE), durable=point)


def with_gpu(model: str) -> Job:
    job = dumped()
    assert job.durable is not None
    return replace(job, durable=replace(job.durable, gpu=model))


def refused(job: Job, node: Node) -> Why | None:
    reason = refusal(job, a_view(node), 10.0)
    if reason is not None:
        assert "{" not in reason.sentence()
    return None if reason is None else reason.why


# --- where it may go --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "node", "why"),
    [
        (dumped(), a_node(), Why.CANNOT_DUMP),
        (a_job(spec=a_spec(checkpoint=WHOLE)), a_node(), Why.CANNOT_DUMP),
        (a_job(spec=a_spec(checkpoint=WHOLE)), a_node(of=untried()), Why.DUMPING_UNTRIED),
        (a_job(spec=a_spec(checkpoint=WHOLE)), a_node(of=able(ARM)), None),
        (dumped(), a_node(of=able()), None),
        (dumped(ARM), a_node(of=able()), Why.OTHER_ARCHITECTURE),
        (dumped(OLD), a_node(of=able()), None),  # never tried: it is worth a try
        (
            dumped(OLD),
            a_node(of=able(), restores=(RestoreTried(kind=OLD, worked=False),)),
            Why.RESTORE_FAILED_BEFORE,
        ),
        (dumped(OLD), a_node(of=able(), restores=(RestoreTried(kind=OLD, worked=True),)), None),
        (with_gpu("card"), a_node(of=able()), None),
        (with_gpu("H200"), a_node(of=able()), Why.OTHER_GPU),
        (replace(dumped(), dumps_given_up=True, durable=None), a_node(), None),
        (a_job(), a_node(), None),
    ],
)
def test_a_dump_goes_only_where_it_may_come_to_life(job: Job, node: Node, why: Why | None) -> None:
    assert refused(job, node) is why


def test_of_a_machine_s_gpus_a_dump_takes_one_like_it_had() -> None:
    cards = (*some_gpus(1, model="A100", speed=9.0), *some_gpus(1, model="H200", first=1))
    view = a_view(a_node(of=replace(facts(gpus=cards), system=able().system)))
    assert [gpu.model for gpu in choose_gpus(with_gpu("H200"), view)] == ["H200"]
    full = replace(view, free_gpus=cards[:1])
    refused_there = refusal(with_gpu("H200"), full, 10.0)
    assert refused_there is not None
    assert refused_there.why is Why.TOO_FEW_FREE_GPUS


def test_a_card_whose_name_has_more_to_it_is_not_like_the_one_a_dump_had() -> None:
    cards = (*some_gpus(1, model="RTX 3080 Ti", speed=9.0), *some_gpus(1, model="RTX 3080", first=1))
    view = a_view(a_node(of=replace(facts(gpus=cards), system=able().system)))
    assert [gpu.model for gpu in choose_gpus(with_gpu("RTX 3080"), view)] == ["RTX 3080"]


@pytest.mark.parametrize("declared", [True, False])
def test_a_dump_remembers_which_gpu_it_had_where_a_driver_is_behind_it(declared: bool) -> None:
    cards = tuple(replace(gpu, declared=declared) for gpu in some_gpus(1, model="H200"))
    headquarters = Headquarters()
    headquarters.joins("alpha", replace(facts(gpus=cards), system=able().system))
    headquarters.submits("job", a_spec(checkpoint=WHOLE))
    headquarters.later(1.0).started("job-e1")
    moved_off(headquarters)
    durable = headquarters.job().durable
    assert durable is not None
    assert durable.gpu == ("" if declared else "H200")


def test_a_pair_that_was_tried_again_is_remembered_as_it_went_last_and_old_ones_are_forgotten() -> None:
    tries = learned(learned((), OLD, worked=False), OLD, worked=True)
    assert tries == (RestoreTried(kind=OLD, worked=True),)
    for number in range(TRIES_KEPT):
        tries = learned(tries, f"x86_64/criu-5.{number}", worked=True)
    assert len(tries) == TRIES_KEPT
    assert OLD not in {tried.kind for tried in tries}


def test_two_machines_are_told_apart_in_words() -> None:
    assert differing(NEW, OLD) == "criu-4.2 and criu-4.1"
    assert differing(NEW, NEW + "/programs-1") == "their programs"


# --- the coordinator --------------------------------------------------------------------------------


def campus(**kinds: str | None) -> Headquarters:
    headquarters = Headquarters()
    for node, kind in kinds.items():
        headquarters.joins(node, facts() if kind is None else able(kind))
    headquarters.submits("job", a_spec(checkpoint=WHOLE))
    headquarters.later(1.0).started("job-e1")
    return headquarters


def captured(headquarters: Headquarters, tier: Tier = Tier.SYSTEM, why: str = "") -> Decision:
    run = headquarters.run()
    return headquarters.reported(
        run.node_id,
        CheckpointCaptured(
            run_id=run.id,
            job_id=run.job_id,
            epoch=1,
            checkpoint_id=C1,
            step=7,
            progress=0.1,
            stall_s=1.0,
            tier=tier,
            tier_why=why,
        ),
    )


def moved_off(headquarters: Headquarters) -> Headquarters:
    """Its owner wanted the machine; the whole guest is durable and the run ended."""
    node = headquarters.run().node_id
    headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + 60))
    captured(headquarters)
    headquarters.ended("job-e1", EndReason.SAVED)
    decision = headquarters.durable(C1, step=7, final=True)
    assert Why.SAVED_WHOLE in whys(decision, "job")
    return headquarters


def test_a_whole_guest_is_brought_back_on_the_other_machine_and_the_pair_is_learned() -> None:
    headquarters = campus(alpha=OLD)
    headquarters.joins("beta", able(NEW))
    moved_off(headquarters)
    moved = headquarters.run("job-e2")
    assert moved.node_id == "beta"
    decision = headquarters.reported(
        "beta",
        RunStarted(
            run_id=moved.id,
            job_id=moved.job_id,
            epoch=2,
            restored=C1,
            resumed_step=7,
            restore_s=1.0,
            tier=Tier.SYSTEM,
        ),
    )
    assert Why.RESUMED_WHOLE in whys(decision, "job")
    assert headquarters.node("beta").restores == (RestoreTried(kind=OLD, worked=True),)
    changed = replace(able(NEW), system=SystemAbility(able=True, why_not="", kind="x86_64/criu-5"))
    headquarters.joins("beta", changed, guests=["job-e2"])
    assert headquarters.node("beta").restores == ()


def test_a_dump_that_comes_to_life_nowhere_is_given_up_with_a_reason() -> None:
    headquarters = campus(alpha=OLD)
    headquarters.joins("beta", able(NEW))
    headquarters.joins("gamma", able(NEW))
    moved_off(headquarters)
    first = headquarters.run("job-e2").node_id
    no: dict[str, Any] = {"why": Why.DUMP_REFUSED_THERE, "detail": "CRIU: bad size"}
    decision = headquarters.ended("job-e2", EndReason.REFUSED, **no)
    assert Why.DUMP_REFUSED_THERE in whys(decision, "job")
    assert headquarters.node(first).restores == (RestoreTried(kind=OLD, worked=False),)
    second = headquarters.run("job-e3").node_id
    assert second != first
    decision = headquarters.ended("job-e3", EndReason.REFUSED, **no)
    assert Why.DUMP_GIVEN_UP in whys(decision, "job")
    assert (headquarters.job().durable, headquarters.job().tier) == (None, Tier.APP)


def test_when_a_dump_comes_to_life_nowhere_the_one_before_is_tried_first() -> None:
    headquarters = campus(alpha=NEW, beta=NEW, gamma=NEW)
    headquarters.fires("checkpoint:job-e1")
    captured(headquarters)
    headquarters.durable(C1, step=7)
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER, step=7)
    run = headquarters.run("job-e2")
    started = RunStarted(
        run_id=run.id,
        job_id=run.job_id,
        epoch=2,
        restored=C1,
        resumed_step=7,
        restore_s=1.0,
        tier=Tier.SYSTEM,
    )
    headquarters.reported(run.node_id, started)
    headquarters.fires("checkpoint:job-e2")
    second = CheckpointId("job-e2-c1")
    report = CheckpointCaptured(
        run_id=run.id, job_id=run.job_id, epoch=2, checkpoint_id=second, step=9, progress=0.2, stall_s=1.0,
        tier=Tier.SYSTEM,
    )  # fmt: skip
    headquarters.reported(run.node_id, report)
    headquarters.durable(second, step=9)
    headquarters.ended("job-e2", EndReason.KILLED_BY_OWNER, step=9)
    refused_there: dict[str, Any] = {"why": Why.DUMP_REFUSED_THERE, "detail": "CRIU: bad size"}
    headquarters.ended("job-e3", EndReason.REFUSED, **refused_there)
    decision = headquarters.ended("job-e4", EndReason.REFUSED, **refused_there)
    told = next(reason for reason in decision.reasons if reason.why is Why.DUMP_SPOILED)
    assert told.sentence() == "its dump of step 9 came to life nowhere; the save before is tried, of step 7"
    job = headquarters.job()
    assert job.dump is not None
    assert (job.dump.checkpoint_id, job.spoiled, job.dump_failures) == (C1, (second,), 0)


def test_one_that_was_brought_back_at_last_has_failed_nowhere() -> None:
    headquarters = campus(alpha=NEW)
    headquarters.joins("beta", able(NEW))
    headquarters.joins("gamma", able(NEW))
    moved_off(headquarters)
    headquarters.ended("job-e2", EndReason.REFUSED, why=Why.DUMP_REFUSED_THERE)
    assert headquarters.job().dump_failures == 1
    run = headquarters.run("job-e3")
    headquarters.reported(
        run.node_id,
        RunStarted(
            run_id=run.id,
            job_id=run.job_id,
            epoch=3,
            restored=C1,
            resumed_step=7,
            restore_s=1.0,
            tier=Tier.SYSTEM,
        ),
    )
    assert headquarters.job().dump_failures == 0
    assert headquarters.node(run.node_id).restores == ()  # of one kind: nothing to learn


def test_waiting_for_a_machine_that_could_has_an_end() -> None:
    headquarters = campus(alpha=NEW)
    headquarters.joins("beta")
    moved_off(headquarters)
    assert headquarters.job().epoch == 1
    headquarters.later(DUMP_PATIENCE_S)
    decision = headquarters.fires("replan")
    assert Why.DUMP_GIVEN_UP in whys(decision, "job")
    started = [order for _, order in orders(headquarters.fires("replan")) if isinstance(order, StartRun)]
    assert [(order.tier, order.restore) for order in started] == [(Tier.APP, None)]


def test_a_busy_campus_is_no_reason_to_give_a_dump_up() -> None:
    headquarters = campus(alpha=NEW)
    moved_off(headquarters)
    headquarters.later(DUMP_PATIENCE_S)
    decision = headquarters.fires("replan")
    assert Why.DUMP_GIVEN_UP not in whys(decision, "job")
    assert headquarters.job().dump is not None


def test_the_tier_of_a_save_is_kept_with_why_it_is_another() -> None:
    headquarters = campus(alpha=NEW)
    headquarters.fires("checkpoint:job-e1")
    decision = captured(headquarters, Tier.APP, "it took too long")
    assert Why.TIER_FELL_BACK in whys(decision, "job")
    saved = headquarters.state.checkpoints[C1]
    assert (saved.tier, saved.tier_why, saved.kind) == (Tier.APP, "it took too long", "")
    assert Why.SAVED in whys(headquarters.durable(C1, step=7), "job")


def test_a_save_that_failed_both_ways_says_both() -> None:
    headquarters = campus(alpha=NEW)
    headquarters.fires("checkpoint:job-e1")
    run = headquarters.run()
    failed = CheckpointFailed(
        run_id=run.id,
        job_id=run.job_id,
        epoch=1,
        checkpoint_id=C1,
        trouble=CheckpointTrouble.NOT_ANSWERED,
        detail="it took too long",
    )
    (reason,) = headquarters.reported(run.node_id, failed).reasons
    assert reason.sentence().endswith(
        "did not save itself in time, nor could it be dumped whole (it took too long)"
    )


# --- the agent --------------------------------------------------------------------------------------


def saved_whole(agent: LoneAgent, checkpoint: str, step: int = 0) -> ShipCheckpoint:
    decision = agent.hears(
        GuestSaved(
            run_id=RUN,
            checkpoint_id=CheckpointId(checkpoint),
            step=step,
            progress=0.0,
            stall_s=1.0,
            tier=Tier.SYSTEM,
        )
    )
    (shipping,) = (deed for deed in deeds(decision) if isinstance(deed, ShipCheckpoint))
    return shipping


def test_the_dumps_of_a_program_that_tells_no_steps_are_counted() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order(number=1))
    assert saved_whole(agent, "job-e1-c1").step == 1
    agent.ships("job-e1-c1", step=1)
    agent.ordered(a_save_order(number=2))
    assert saved_whole(agent, "job-e1-c2").step == 2
    agent.ships("job-e1-c2", step=2)
    agent.ordered(a_save_order(number=3))
    assert saved_whole(agent, "job-e1-c3", step=40).step == 40


def test_why_it_was_not_dumped_travels_with_what_its_program_saved() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.hears(GuestNotDumped(run_id=RUN, checkpoint_id=C1, why="it took too long"))
    (report,) = (r for r in reports(agent.saves()) if isinstance(r, CheckpointCaptured))
    assert (report.tier, report.tier_why) == (Tier.APP, "it took too long")


def test_why_it_was_not_dumped_is_told_also_when_its_program_does_not_answer() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.hears(GuestNotDumped(run_id=RUN, checkpoint_id=C1, why="it took too long"))
    agent.hears(GuestNotDumped(run_id=RUN, checkpoint_id=CheckpointId("job-e1-c9"), why="of another save"))
    (report,) = reports(agent.fires("save:job-e1"))
    assert isinstance(report, CheckpointFailed)
    assert (report.trouble, report.detail) == (CheckpointTrouble.NOT_ANSWERED, "it took too long")


def test_a_guest_that_was_brought_back_says_so() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    started = GuestStarted(run_id=RUN, restored=C1, resumed_step=7, restore_s=1.0, tier=Tier.SYSTEM)
    (report,) = (r for r in reports(agent.hears(started)) if isinstance(r, RunStarted))
    assert (report.tier, report.resumed_step) == (Tier.SYSTEM, 7)


def test_a_job_on_a_slice_is_told_so_and_is_never_dumped_there() -> None:
    headquarters = Headquarters()
    slices = tuple(replace(gpu, card="GPU-a", profile="3g.40gb") for gpu in some_gpus(1, speed=9.0))
    headquarters.joins("alpha", replace(facts(gpus=slices), system=able().system))
    headquarters.joins("beta", able())
    decision = headquarters.submits("job", a_spec())
    ((node_id, start),) = orders(decision)
    assert node_id == "alpha"
    assert isinstance(start, StartRun)
    assert start.whole is False
    assert Why.ON_A_SLICE in whys(decision)
