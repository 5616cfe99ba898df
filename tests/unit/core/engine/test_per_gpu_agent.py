"""An agent whose owner takes back, pauses or lends one GPU, or that finds one sick; the others go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.guest import GuestPhase, OwnerState
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause
from gpunion.domain.protocol.effects import (
    KillGuest,
    LimitGuest,
    SendReport,
    SetTimer,
    StartGuest,
    TellNotice,
    TerminateGuest,
)
from gpunion.domain.protocol.events import (
    AgentStarted,
    GuestFound,
    GuestStarted,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
)
from gpunion.domain.protocol.reports import (
    CheckpointFailed,
    GpusKeptFree,
    NodePaused,
    NodeReclaimed,
    NodeResumed,
    NoticeGiven,
    RunEnded,
)
from gpunion.domain.protocol.timers import agent_timer, text_of
from gpunion.domain.reasons.reason import Why
from gpunion.engine.agent.state import AgentState
from tests.builders import LoneAgent, a_save_order, a_start, deeds, facts, reports, timers_of, whys

OWN_WORK, SICK = HoldCause.OWN_WORK, HoldCause.SICK


def two_guests(gpus: int = 2) -> LoneAgent:
    """One guest on GPU 0, another on GPU 1."""
    agent = LoneAgent(of=facts(gpus=gpus))
    for gpu, run in enumerate(("one-e1", "two-e1")):
        agent.ordered(a_start(run, gpu=gpu))
        agent.hears(GuestStarted(run_id=RunId(run), restored=None, resumed_step=0, restore_s=0.1))
    return agent


def held(agent: LoneAgent) -> dict[int, tuple[GpuPhase, HoldCause]]:
    return {gpu.index: (gpu.phase, gpu.cause) for gpu in agent.state.holding.gpus}


def test_reclaiming_one_gpu_gives_notice_to_its_guest_alone() -> None:
    agent = two_guests()
    decision = agent.hears(OwnerReclaimed(notice_s=60, gpus=(1,)))
    deadline_s = agent.now_s + 60
    assert decision.effects == (
        SendReport(report=NoticeGiven(deadline_s=deadline_s, gpus=(1,))),
        TellNotice(run_id=RunId("two-e1"), deadline_s=deadline_s),
        LimitGuest(
            run_id=RunId("two-e1"), lease_until_s=agent.engine.timing.lease_s + 103.0, kill_at_s=deadline_s
        ),
        SetTimer(timer=agent_timer("deadline:gpu:1"), at_s=deadline_s),
        SetTimer(timer=agent_timer("term:gpu:1"), at_s=deadline_s - 5),
        SetTimer(timer=agent_timer("own_save:gpu:1"), at_s=agent.now_s + 2),
    )
    assert agent.state.holding.owner_state is OwnerState.SHARING
    assert held(agent) == {1: (GpuPhase.RECLAIMING, HoldCause.OWNER)}


def test_at_the_gpus_deadline_only_its_guest_ends() -> None:
    agent = two_guests()
    agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    term = agent.fires("term:gpu:0")
    assert deeds(term) == [TerminateGuest(run_id=RunId("one-e1"))]
    end = agent.fires("deadline:gpu:0")
    assert deeds(end) == [KillGuest(run_id=RunId("one-e1"), cause=EndReason.DEADLINE)]
    gone = agent.exits("one-e1", None, cause=EndReason.DEADLINE)
    assert [type(report) for report in reports(gone)] == [RunEnded, NodeReclaimed]
    assert reports(gone)[1] == NodeReclaimed(freed_after_s=60.0, gpus=(0,))
    assert agent.guest("two-e1").phase is GuestPhase.RUNNING
    assert held(agent) == {0: (GpuPhase.RECLAIMED, HoldCause.OWNER)}


def test_a_gpu_nobody_is_on_is_the_owners_at_once() -> None:
    agent = LoneAgent(of=facts(gpus=2))
    decision = agent.hears(OwnerReclaimed(notice_s=60, gpus=(1,)))
    assert reports(decision) == [
        NoticeGiven(deadline_s=agent.now_s + 60, gpus=(1,)),
        NodeReclaimed(freed_after_s=0.0, gpus=(1,)),
    ]
    assert [key for key, at_s in timers_of(decision).items() if at_s is not None] == []


def test_a_gpu_taken_at_once_ends_its_guest_without_a_word() -> None:
    agent = two_guests()
    decision = agent.hears(OwnerReclaimed(notice_s=0, gpus=(0,)))
    assert deeds(decision) == [KillGuest(run_id=RunId("one-e1"), cause=EndReason.DEADLINE)]


@pytest.mark.parametrize("phase", [OwnerPaused(gpus=(0,)), OwnerReclaimed(notice_s=0, gpus=(0,))])
def test_no_guest_starts_on_a_gpu_that_is_not_lent(phase: OwnerPaused | OwnerReclaimed) -> None:
    agent = LoneAgent(of=facts(gpus=2))
    agent.hears(phase)
    refused = agent.ordered(a_start("job-e1", gpu=0))
    assert deeds(refused) == []
    ended = reports(refused)[0]
    assert isinstance(ended, RunEnded)
    assert (ended.reason, ended.why) == (EndReason.REFUSED, Why.GPU_WITHHELD)
    taken = agent.ordered(a_start("other-e1", gpu=1))
    assert isinstance(deeds(taken)[0], StartGuest)


def test_a_word_about_a_gpu_the_machine_does_not_have_is_not_one_about_the_machine() -> None:
    agent = two_guests()
    for word in (OwnerReclaimed(notice_s=0, gpus=(7,)), OwnerPaused(gpus=(7,)), OwnerResumed(gpus=(7,))):
        assert agent.hears(word).empty


def test_a_guest_of_two_gpus_goes_when_either_is_wanted_and_at_the_earlier_deadline() -> None:
    agent = LoneAgent(of=facts(gpus=3))
    both = replace(a_start("job-e1"), grant=replace(a_start().grant, gpu_indices=(0, 1)))
    agent.ordered(both)
    agent.hears(GuestStarted(run_id=RunId("job-e1"), restored=None, resumed_step=0, restore_s=0.1))
    agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    second = agent.hears(OwnerReclaimed(notice_s=30, gpus=(1,)))
    assert TellNotice(run_id=RunId("job-e1"), deadline_s=agent.now_s + 30) in second.effects
    agent.fires("deadline:gpu:1")
    gone = agent.exits("job-e1", None, cause=EndReason.DEADLINE)
    assert [r.gpus for r in reports(gone) if isinstance(r, NodeReclaimed)] == [(0,), (1,)]
    assert agent.timer_at("deadline:gpu:0") is None


def test_a_second_word_shortens_a_notice_and_never_lengthens_it() -> None:
    agent = two_guests()
    agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    assert agent.hears(OwnerReclaimed(notice_s=90, gpus=(0,))).empty
    shorter = agent.hears(OwnerReclaimed(notice_s=10, gpus=(0,)))
    assert reports(shorter) == [NoticeGiven(deadline_s=agent.now_s + 10, gpus=(0,))]
    assert agent.timer_at("deadline:gpu:0") == agent.now_s + 10


def test_what_was_saved_in_time_is_still_sent_after_the_gpu_is_gone() -> None:
    agent = two_guests()
    agent.hears(OwnerReclaimed(notice_s=20, gpus=(0,)))
    agent.ordered(a_save_order("one-e1", final=True, by_s=agent.now_s + 20))
    agent.later(2).saves("one-e1-c1", step=10)
    gone = agent.exits("one-e1", None, step=10, cause=EndReason.SAVED)
    assert NodeReclaimed(freed_after_s=2.0, gpus=(0,)) in reports(gone)
    assert agent.guest("one-e1").phase is GuestPhase.SHIPPING
    agent.later(60).ships("one-e1-c1", step=10)
    assert RunId("one-e1") not in agent.state.guests


def test_a_periodic_save_on_its_way_survives_the_gpus_deadline() -> None:
    agent = two_guests()
    agent.ordered(a_save_order("one-e1"))
    agent.saves("one-e1-c1", step=10)
    agent.hears(OwnerReclaimed(notice_s=0, gpus=(0,)))
    gone = agent.exits("one-e1", None, step=12, cause=EndReason.DEADLINE)
    assert not [r for r in reports(gone) if isinstance(r, CheckpointFailed)]
    assert agent.guest("one-e1").phase is GuestPhase.SHIPPING


def test_an_agent_alone_has_the_guest_of_the_wanted_gpu_saved() -> None:
    agent = two_guests()
    agent.later(30).hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    alone = agent.fires("own_save:gpu:0")
    assert whys(alone) == [Why.OWN_SAVE]
    near = two_guests()
    near.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    assert deeds(near.fires("own_save:gpu:0")) == []
    assert near.timer_at("own_save:gpu:0") == near.now_s + 2
    near.hears(OwnerResumed(gpus=(0,)))
    assert near.hears(OwnerResumed(gpus=(0,))).empty


def test_an_owner_who_changes_their_mind_about_a_gpu_keeps_its_guest() -> None:
    agent = two_guests()
    agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    decision = agent.hears(OwnerResumed(gpus=(0,)))
    assert reports(decision) == [NodeResumed(gpus=(0,))]
    assert TellNotice(run_id=RunId("one-e1"), deadline_s=None) in decision.effects
    limits = [effect for effect in decision.effects if isinstance(effect, LimitGuest)]
    assert [(limit.run_id, limit.kill_at_s) for limit in limits] == [("one-e1", None)]
    assert not [timer for timer, _ in agent.timers.items() if ":gpu:" in text_of(timer)]
    assert held(agent) == {}


def test_pausing_a_gpu_lets_its_guest_stay() -> None:
    agent = two_guests()
    decision = agent.hears(OwnerPaused(gpus=(0, 1)))
    assert (deeds(decision), reports(decision)) == ([], [NodePaused(gpus=(0, 1))])
    assert agent.hears(OwnerPaused(gpus=(0,))).empty
    agent.hears(OwnerReclaimed(notice_s=5, gpus=(0,)))
    assert held(agent)[0] == (GpuPhase.RECLAIMING, HoldCause.OWNER)


def test_the_machines_deadline_counts_for_a_guest_whose_gpu_has_a_later_one() -> None:
    agent = two_guests()
    agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    decision = agent.hears(OwnerReclaimed(notice_s=20))
    told = {effect.run_id: effect.deadline_s for effect in decision.effects if isinstance(effect, TellNotice)}
    assert told == {"one-e1": agent.now_s + 20, "two-e1": agent.now_s + 20}
    assert held(agent) == {0: (GpuPhase.RECLAIMING, HoldCause.OWNER)}


def test_lending_the_machine_again_ends_what_the_owner_said_of_single_gpus_and_nothing_else() -> None:
    agent = LoneAgent(of=facts(gpus=3))
    agent.hears(OwnerReclaimed(notice_s=0, gpus=(0,)))
    agent.hears(OwnerReclaimed(notice_s=0, gpus=(1,), cause=OWN_WORK))
    agent.hears(OwnerReclaimed(notice_s=0, gpus=(2,), cause=SICK, detail="Xid 79"))
    assert reports(agent.hears(OwnerResumed())) == [NodeResumed()]
    assert held(agent) == {1: (GpuPhase.RECLAIMED, OWN_WORK), 2: (GpuPhase.RECLAIMED, SICK)}
    assert agent.hears(OwnerResumed()).empty


def test_a_kill_takes_the_machine_and_forgets_no_gpu() -> None:
    agent = two_guests()
    agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,), cause=SICK, detail="ECC"))
    agent.hears(OwnerKilled())
    agent.exits("one-e1", None, cause=EndReason.KILLED_BY_OWNER)
    agent.hears(OwnerResumed())
    assert held(agent) == {0: (GpuPhase.RECLAIMED, SICK)}


def test_own_work_that_is_gone_gives_back_only_what_own_work_took() -> None:
    agent = LoneAgent(of=facts(gpus=3))
    agent.hears(OwnerReclaimed(notice_s=10, gpus=(0, 1), cause=OWN_WORK, detail="python (4711)"))
    agent.hears(OwnerReclaimed(notice_s=10, gpus=(1,)))  # now it is theirs by word
    decision = agent.hears(OwnerResumed(gpus=(0, 1, 2), cause=OWN_WORK))
    assert reports(decision) == [NodeResumed(gpus=(0,))]
    assert held(agent) == {1: (GpuPhase.RECLAIMED, HoldCause.OWNER)}
    assert agent.hears(OwnerReclaimed(notice_s=10, gpus=(1,), cause=OWN_WORK)).empty


def test_a_gpu_kept_free_after_own_work_is_told_with_until_when_and_no_second_notice() -> None:
    agent = LoneAgent(of=facts(gpus=1))
    agent.hears(OwnerReclaimed(notice_s=10, gpus=(0,), cause=OWN_WORK))
    kept = OwnerReclaimed(notice_s=10, gpus=(0,), cause=OWN_WORK, until_s=70.0)
    assert reports(agent.hears(kept)) == [GpusKeptFree(gpus=(0,), until_s=70.0)]
    assert agent.hears(kept).empty
    again = agent.hears(OwnerReclaimed(notice_s=10, gpus=(0,), cause=OWN_WORK))
    assert reports(again) == [GpusKeptFree(gpus=(0,))]
    assert held(agent) == {0: (GpuPhase.RECLAIMED, OWN_WORK)}


def test_pausing_a_gpu_the_owner_computes_on_keeps_it_theirs_afterwards() -> None:
    agent = LoneAgent(of=facts(gpus=1))
    agent.hears(OwnerReclaimed(notice_s=10, gpus=(0,), cause=OWN_WORK))
    agent.hears(OwnerPaused(gpus=(0,)))
    assert agent.hears(OwnerResumed(gpus=(0,), cause=OWN_WORK)).empty
    assert held(agent) == {0: (GpuPhase.RECLAIMED, HoldCause.OWNER)}


def test_nothing_is_saved_from_a_sick_gpu_and_its_guest_learns_why_it_ends() -> None:
    agent = two_guests()
    agent.ordered(a_save_order("one-e1"))
    agent.saves("one-e1-c1", step=10)
    decision = agent.hears(OwnerReclaimed(notice_s=0, gpus=(0,), cause=SICK, detail="Xid 79"))
    assert KillGuest(run_id=RunId("one-e1"), cause=EndReason.SICK_GPU) in deeds(decision)
    assert [type(r) for r in reports(decision)] == [NoticeGiven, CheckpointFailed]
    gone = agent.exits("one-e1", None, cause=EndReason.DEADLINE)
    ended = reports(gone)[0]
    assert isinstance(ended, RunEnded)
    assert (ended.reason, ended.detail) == (EndReason.SICK_GPU, "GPU 0: Xid 79")
    assert RunId("one-e1") not in agent.state.guests
    assert agent.hears(OwnerResumed(gpus=(0,), cause=OWN_WORK)).empty
    assert reports(agent.hears(OwnerResumed(gpus=(0,)))) == [NodeResumed(gpus=(0,))]


def test_a_restarted_agent_remembers_every_gpu_and_its_deadline() -> None:
    agent = two_guests()
    agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    other = LoneAgent(of=agent.engine.facts, now_s=agent.now_s + 10)
    other.engine.state = AgentState.from_records(agent.state.records())
    other.timers.apply(SetTimer(timer=timer, at_s=at_s) for timer, at_s in agent.timers.items())
    assert other.state.holding == agent.state.holding
    found = tuple(GuestFound(run_id=RunId(run), alive=True) for run in ("one-e1", "two-e1"))
    assert not [e for e in deeds(other.hears(AgentStarted(found=found))) if isinstance(e, KillGuest)]
    ended = other.fires("deadline:gpu:0")
    assert deeds(ended) == [KillGuest(run_id=RunId("one-e1"), cause=EndReason.DEADLINE)]


@pytest.mark.parametrize(("away_s", "rebooted"), [(100.0, False), (1.0, True)])
def test_a_deadline_that_came_while_no_agent_lived_is_kept_first(away_s: float, rebooted: bool) -> None:
    agent = two_guests()
    agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    found = tuple(GuestFound(run_id=RunId(run), alive=True) for run in ("one-e1", "two-e1"))
    decision = agent.later(away_s).hears(AgentStarted(found=found, rebooted=rebooted))
    killed = [effect.run_id for effect in deeds(decision) if isinstance(effect, KillGuest)]
    assert set(killed) == {"one-e1"}


def test_a_machine_that_has_left_hears_nothing_about_its_gpus() -> None:
    agent = LoneAgent(of=facts(gpus=2))
    agent.hears(OwnerReclaimed(notice_s=0, gpus=(0,)))
    agent.hears(OwnerReclaimed(notice_s=0, leaving=True))
    for word in (OwnerReclaimed(notice_s=0, gpus=(1,)), OwnerPaused(gpus=(1,)), OwnerResumed(gpus=(0,))):
        assert agent.hears(word).empty
