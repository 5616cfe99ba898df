"""A guest's life on its machine: ordered, started, saved, ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.decision import AgentDecision
from gpunion.domain.effects import (
    AskToSave,
    CancelShipping,
    CancelTimer,
    KillGuest,
    LimitGuest,
    RemoveGuest,
    SendReport,
    SetTimer,
    ShipCheckpoint,
    ShipOutput,
    StartGuest,
    TellNotice,
    TerminateGuest,
)
from gpunion.domain.events import (
    GuestExited,
    GuestStarted,
    GuestStartFailed,
    OutputShipped,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
    TimerFired,
)
from gpunion.domain.guest import GuestPhase, JobEpoch, Saving
from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.orders import Order
from gpunion.domain.reasons import Why
from gpunion.domain.reports import (
    Capture,
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    RunEnded,
    RunStarted,
)
from gpunion.domain.resources import MIB
from gpunion.domain.run import EndReason
from gpunion.domain.system_tier import Tier
from gpunion.domain.terms import Terms
from gpunion.engine.handlers.guests import EXIT_SAVED
from tests.builders import (
    TIMING,
    LoneAgent,
    a_guest,
    a_save_order,
    a_start,
    a_stop,
    an_agent_with_a_guest,
    deeds,
    facts,
    reports,
    timers_of,
    whys,
)

RUN = RunId("job-e1")
JOB = JobId("job")
C1 = CheckpointId("job-e1-c1")
ALL_PHASES = list(GuestPhase)


def the_end(reason: EndReason, **more: object) -> RunEnded:
    end = RunEnded(run_id=RUN, job_id=JOB, epoch=1, reason=reason, last_step=0, at_s=100.0)
    return replace(end, **more)  # type: ignore[arg-type]


def not_saved(trouble: CheckpointTrouble, checkpoint: str = C1) -> CheckpointFailed:
    return CheckpointFailed(
        run_id=RUN, job_id=JOB, epoch=1, checkpoint_id=CheckpointId(checkpoint), trouble=trouble
    )


# --- start ------------------------------------------------------------------------------------------


def test_a_start_is_obeyed_with_the_lease_s_limit_in_force_from_the_first_moment() -> None:
    agent = LoneAgent(of=facts(gpus=2, terms=Terms(autonomy_s=5)))
    until_s = agent.now_s + TIMING.lease_s + 5 + TIMING.grace_s
    decision = agent.ordered(a_start())
    assert decision.changes == (
        JobEpoch(job_id=JOB, epoch=1),
        a_guest("job-e1", phase=GuestPhase.STARTING, name="train", user="sam", lab="students", came_s=100.0),
    )
    assert decision.effects == (
        StartGuest(order=a_start(), lease_until_s=until_s),
        LimitGuest(run_id=RUN, lease_until_s=until_s, kill_at_s=None),
        SetTimer(key="lease", at_s=until_s - TIMING.grace_s),
    )


def test_a_guest_that_started_is_reported_with_where_it_goes_on() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    decision = agent.hears(
        GuestStarted(run_id=RUN, restored=CheckpointId("job-e0-c1"), resumed_step=40, restore_s=2.0)
    )
    assert reports(decision) == [
        RunStarted(
            run_id=RUN,
            job_id=JOB,
            epoch=1,
            restored=CheckpointId("job-e0-c1"),
            resumed_step=40,
            restore_s=2.0,
        )
    ]
    assert (agent.guest().phase, agent.guest().last_step) == (GuestPhase.RUNNING, 40)


def test_a_guest_that_starts_into_a_notice_is_told_of_it() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    agent.hears(OwnerReclaimed(notice_s=60))
    decision = agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0))
    assert TellNotice(run_id=RUN, deadline_s=agent.now_s + 60) in decision.effects


def test_a_start_that_comes_twice_starts_once() -> None:
    agent = an_agent_with_a_guest()
    assert agent.ordered(a_start()).empty
    assert agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0)).empty


def refused(agent: LoneAgent, order: Order, why: Why) -> AgentDecision:
    decision = agent.ordered(order)
    assert deeds(decision) == []
    [report] = reports(decision)
    assert isinstance(report, RunEnded)
    assert (report.run_id, report.reason, report.why) == (order.run_id, EndReason.REFUSED, why)
    assert whys(decision) == [why]
    return decision


def test_an_epoch_not_newer_than_one_seen_is_refused() -> None:
    agent = an_agent_with_a_guest("job-e5")
    agent.exits("job-e5", 0)
    agent.hears(OutputShipped(run_id=RunId("job-e5"), output=None))
    decision = refused(agent, a_start("job-e4"), Why.OLD_EPOCH)
    assert decision.reasons[0].sentence() == "run 4 of it is older than run 5, which is known there"
    refused(agent, a_start("job-e5"), Why.OLD_EPOCH)
    assert deeds(agent.ordered(a_start("job-e6"))) != []


def test_a_stop_teaches_an_agent_the_epoch_as_well() -> None:
    agent = LoneAgent()
    agent.ordered(a_stop("job-e3"))
    refused(agent, a_start("job-e3"), Why.OLD_EPOCH)


@pytest.mark.parametrize("word", [OwnerPaused(), OwnerReclaimed(notice_s=60), OwnerKilled()])
def test_nobody_new_comes_against_the_owner_s_word(word: OwnerPaused) -> None:
    agent = LoneAgent()
    agent.hears(word)
    decision = refused(agent, a_start(), Why.OWNER_SAID_NO)
    assert "the owner said" in decision.reasons[0].sentence()


def test_nobody_new_comes_during_a_notice_with_others_still_here() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    refused(agent, a_start("other-e1", gpu=1), Why.OWNER_SAID_NO)


def test_nobody_new_comes_without_a_lease_or_after_its_end() -> None:
    refused(LoneAgent(lease=False), a_start(), Why.NO_LEASE)
    agent = LoneAgent()
    refused(agent.later(TIMING.lease_s), a_start(), Why.NO_LEASE)


def test_a_lab_the_owner_does_not_admit_is_refused_here_as_well() -> None:
    agent = LoneAgent(of=facts(terms=Terms(deny_labs=("students",))))
    decision = refused(agent, a_start(), Why.LAB_NOT_ADMITTED)
    assert "lab 'students'" in decision.reasons[0].sentence()


def test_a_machine_that_cannot_shut_guests_in_takes_none_unless_its_owner_says_so() -> None:
    refused(LoneAgent(of=facts(sandboxed=False)), a_start(), Why.UNSANDBOXED)
    allowed = LoneAgent(of=facts(sandboxed=False, terms=Terms(allow_unsandboxed=True)))
    assert deeds(allowed.ordered(a_start())) != []


def test_no_more_guests_than_the_owner_allows_are_taken() -> None:
    agent = an_agent_with_a_guest(of=facts(gpus=2, terms=Terms(max_guests=1)))
    refused(agent, a_start("other-e1", gpu=1), Why.GUESTS_FULL)


def test_a_granted_gpu_that_is_still_held_is_refused() -> None:
    agent = an_agent_with_a_guest()
    refused(agent, a_start("other-e1", gpu=0), Why.GPU_BUSY)
    assert deeds(agent.ordered(a_start("third-e1", gpu=1))) != []


def test_two_incarnations_of_a_job_are_not_on_one_machine() -> None:
    agent = an_agent_with_a_guest("job-e1")
    refused(agent, a_start("job-e2", gpu=1), Why.GPU_BUSY)


def test_a_start_that_fails_is_reported_and_cleared_away() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    decision = agent.hears(GuestStartFailed(run_id=RUN, detail="no such image"))
    assert decision.forgotten == (RUN,)
    assert decision.effects == (
        SendReport(report=the_end(EndReason.START_FAILED, detail="no such image")),
        RemoveGuest(run_id=RUN),
    )
    assert agent.hears(GuestStartFailed(run_id=RUN, detail="again")).empty


def test_a_start_that_fails_after_a_stop_counts_as_stopped() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    agent.ordered(a_stop())
    decision = agent.hears(GuestStartFailed(run_id=RUN, detail="killed"))
    assert [r.reason for r in reports(decision) if isinstance(r, RunEnded)] == [EndReason.STOPPED]
    assert timers_of(decision) == {"kill:job-e1": None}


# --- stop -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [GuestPhase.STARTING, GuestPhase.RUNNING])
def test_a_guest_that_is_stopped_is_asked_first_and_killed_later(phase: GuestPhase) -> None:
    agent = LoneAgent(a_guest(phase=phase))
    decision = agent.ordered(a_stop())
    assert decision.effects == (
        TerminateGuest(run_id=RUN),
        SetTimer(key="kill:job-e1", at_s=agent.now_s + TIMING.stop_grace_s),
    )
    assert deeds(agent.fires("kill:job-e1")) == [KillGuest(run_id=RUN, cause=EndReason.STOPPED)]
    ended = agent.exits(code=None, cause=EndReason.STOPPED)
    assert reports(ended) == [the_end(EndReason.STOPPED, at_s=agent.now_s)]


@pytest.mark.parametrize("phase", [GuestPhase.ENDING, GuestPhase.SHIPPING])
def test_a_guest_that_is_on_its_way_out_needs_no_stopping(phase: GuestPhase) -> None:
    agent = LoneAgent(a_guest(phase=phase))
    decision = agent.ordered(a_stop())
    assert decision.effects == ()


def test_a_stop_calls_off_a_last_save_that_is_on_its_way() -> None:
    saving = Saving(checkpoint_id=C1, final=True, rate_bps=1e6, saved=True)
    agent = LoneAgent(a_guest(phase=GuestPhase.SHIPPING, saving=saving, final_saved=True))
    decision = agent.ordered(a_stop())
    assert decision.forgotten == (RUN,)
    assert deeds(decision) == [CancelShipping(run_id=RUN), RemoveGuest(run_id=RUN)]
    assert reports(decision) == [not_saved(CheckpointTrouble.SUPERSEDED)]


def test_a_guest_nobody_knows_is_reported_as_unknown() -> None:
    decision = LoneAgent().ordered(a_stop())
    assert reports(decision) == [the_end(EndReason.UNKNOWN, at_s=None)]


def test_a_stop_because_of_another_member_leaves_a_save_on_its_way() -> None:
    saving = Saving(checkpoint_id=C1, final=True, rate_bps=0.0, saved=True)
    agent = LoneAgent(a_guest(phase=GuestPhase.SHIPPING, saving=saving, final_saved=True))
    assert agent.ordered(replace(a_stop(), spares_save=True)).effects == ()
    arrived = reports(agent.ships(step=10))
    assert [report.step for report in arrived if isinstance(report, CheckpointDurable)] == [10]


def test_a_later_round_of_a_gang_takes_the_place_of_the_one_before() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(replace(a_save_order(), at_step=10))
    asked = agent.ordered(replace(a_save_order(), checkpoint_id=CheckpointId("job-e1-c2"), at_step=20))
    assert reports(asked) == [not_saved(CheckpointTrouble.SUPERSEDED)]
    assert [effect.at_step for effect in asked.effects if isinstance(effect, AskToSave)] == [20]


def test_a_stopped_guest_that_leaves_with_zero_was_stopped_and_did_not_finish() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_stop())
    decision = agent.exits(code=0)
    assert reports(decision) == [the_end(EndReason.STOPPED, exit_code=0)]
    assert timers_of(decision) == {"kill:job-e1": None}


def test_nobody_is_killed_for_a_stop_after_they_left() -> None:
    assert LoneAgent().hears(TimerFired(key="kill:job-e1")).empty


# --- end --------------------------------------------------------------------------------------------


def test_a_guest_that_finishes_has_its_output_shipped_before_it_is_reported() -> None:
    agent = an_agent_with_a_guest()
    decision = agent.exits(code=0, step=100)
    assert decision.effects == (ShipOutput(run_id=RUN),)
    assert agent.guest().phase is GuestPhase.SHIPPING
    done = agent.hears(OutputShipped(run_id=RUN, output=CheckpointId("out")))
    assert reports(done) == [
        the_end(EndReason.FINISHED, last_step=100, exit_code=0, output=CheckpointId("out"))
    ]
    assert done.forgotten == (RUN,)


def test_a_guest_whose_output_is_lost_has_not_finished() -> None:
    agent = an_agent_with_a_guest()
    agent.exits(code=0)
    decision = agent.hears(OutputShipped(run_id=RUN, output=None, detail="the vault is full"))
    assert reports(decision) == [the_end(EndReason.DEADLINE, exit_code=0, detail="the vault is full")]


@pytest.mark.parametrize(
    ("code", "cause", "reason"),
    [
        (None, None, EndReason.GUEST_LOST),
        (None, EndReason.LEASE_ENDED, EndReason.LEASE_ENDED),
        (137, EndReason.DEADLINE, EndReason.DEADLINE),
    ],
)
def test_an_end_says_whose_doing_it_was(code: int | None, cause: EndReason | None, reason: EndReason) -> None:
    agent = an_agent_with_a_guest()
    decision = agent.exits(code=code, cause=cause)
    assert reports(decision) == [the_end(reason, exit_code=code)]
    assert decision.forgotten == (RUN,)


def test_what_a_failed_program_has_made_is_shipped_before_its_end_is_told() -> None:
    agent = an_agent_with_a_guest()
    decision = agent.exits(code=3)
    assert decision.effects == (ShipOutput(run_id=RUN),)
    done = agent.hears(OutputShipped(run_id=RUN, output=CheckpointId("out")))
    assert reports(done) == [the_end(EndReason.FAILED, exit_code=3, output=CheckpointId("out"))]
    assert done.forgotten == (RUN,)


def test_a_failed_program_has_failed_also_when_its_output_is_lost_or_cut() -> None:
    agent = an_agent_with_a_guest()
    agent.exits(code=3)
    decision = agent.hears(OutputShipped(run_id=RUN, output=None, detail="the vault is full"))
    assert reports(decision) == [the_end(EndReason.FAILED, exit_code=3, detail="the vault is full")]
    agent = an_agent_with_a_guest()
    agent.exits(code=3)
    assert the_end(EndReason.FAILED, exit_code=3) in reports(agent.hears(OwnerKilled()))


def test_an_end_is_heard_once() -> None:
    agent = an_agent_with_a_guest()
    agent.exits(code=1)
    assert agent.exits(code=1).empty
    agent.hears(OutputShipped(run_id=RUN, output=None))
    assert agent.hears(OutputShipped(run_id=RUN, output=None)).empty


# --- save -------------------------------------------------------------------------------------------


def test_a_save_is_asked_for_written_shipped_and_reported() -> None:
    agent = an_agent_with_a_guest()
    asked = agent.ordered(a_save_order(rate_bps=5e6))
    assert asked.effects == (
        AskToSave(run_id=RUN, checkpoint_id=C1, final=False, by_s=None),
        SetTimer(key="save:job-e1", at_s=agent.now_s + TIMING.save_timeout_s),
    )
    written = agent.saves(step=10)
    assert written.effects == (
        ShipCheckpoint(run_id=RUN, checkpoint_id=C1, step=10, progress=0.5, rate_bps=5e6),
    )
    arrived = agent.later(7).ships(step=10, elsewhere="attic: no room")
    assert CancelTimer(key="save:job-e1") in arrived.effects
    assert reports(arrived) == [
        CheckpointDurable(
            run_id=RUN,
            job_id=JOB,
            epoch=1,
            checkpoint_id=C1,
            step=10,
            progress=0.5,
            size_bytes=2 * MIB,
            shipped_bytes=MIB,
            final=False,
            elsewhere="attic: no room",
            capture=Capture(stall_s=1.0, capture_s=0.0, tier=Tier.APP, sent_for_s=7.0),
        )
    ]
    assert agent.guest().saving is None
    assert agent.guest().phase is GuestPhase.RUNNING


def test_a_save_that_takes_long_to_arrive_is_told_of_meanwhile() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves(step=10)
    on_its_way = CheckpointCaptured(
        run_id=RUN, job_id=JOB, epoch=1, checkpoint_id=C1, step=10, progress=0.5, stall_s=1.0
    )
    assert reports(agent.hears(TimerFired(key="save:job-e1"))) == [on_its_way]
    (arrived,) = reports(agent.ships(step=10))
    assert isinstance(arrived, CheckpointDurable)
    assert arrived.capture is None


def test_a_guest_that_ends_with_a_save_on_its_way_says_what_is_to_be_waited_for() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves(step=10)
    ended = reports(agent.exits(code=None))
    assert [type(report) for report in ended] == [CheckpointCaptured, RunEnded]


def test_a_last_save_ends_the_guest_as_soon_as_it_is_written() -> None:
    agent = an_agent_with_a_guest()
    by_s = agent.now_s + 30
    asked = agent.ordered(a_save_order(final=True, by_s=by_s))
    assert timers_of(asked) == {"save:job-e1": by_s}
    decision = agent.saves(step=10)
    assert KillGuest(run_id=RUN, cause=EndReason.SAVED) in decision.effects
    ended = agent.exits(code=None, step=10, cause=EndReason.SAVED)
    assert reports(ended) == [the_end(EndReason.SAVED, last_step=10)]
    assert agent.guest().phase is GuestPhase.SHIPPING
    arrived = agent.ships(step=10)
    assert [r.final for r in reports(arrived) if isinstance(r, CheckpointDurable)] == [True]
    assert arrived.forgotten == (RUN,)


def test_a_last_save_that_arrives_before_the_guest_is_gone_leaves_nothing_to_ship() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order(final=True))
    agent.saves()
    agent.ships()
    decision = agent.exits(code=None, cause=EndReason.SAVED)
    assert decision.forgotten == (RUN,)
    assert [r.reason for r in reports(decision) if isinstance(r, RunEnded)] == [EndReason.SAVED]


def test_a_save_the_program_does_not_answer_is_given_up_and_the_guest_goes_on() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    decision = agent.fires("save:job-e1")
    assert reports(decision) == [not_saved(CheckpointTrouble.NOT_ANSWERED)]
    assert (agent.guest().phase, agent.guest().saving) == (GuestPhase.RUNNING, None)
    assert agent.saves().empty
    assert agent.hears(TimerFired(key="save:job-e1")).empty
    assert agent.hears(TimerFired(key="save:ghost-e1")).empty


def test_a_save_written_in_time_is_not_given_up() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves()
    agent.hears(TimerFired(key="save:job-e1"))
    assert agent.guest().saving is not None


def test_a_periodic_save_is_superseded_by_the_last_one() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order("job-e1", 1))
    decision = agent.ordered(a_save_order("job-e1", 2, final=True))
    assert reports(decision) == [not_saved(CheckpointTrouble.SUPERSEDED)]
    assert deeds(decision) == [
        AskToSave(run_id=RUN, checkpoint_id=CheckpointId("job-e1-c2"), final=True, by_s=None)
    ]


def test_a_periodic_save_on_its_way_is_cut_for_the_last_one() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order("job-e1", 1))
    agent.saves("job-e1-c1")
    decision = agent.ordered(a_save_order("job-e1", 2, final=True))
    assert deeds(decision)[0] == CancelShipping(run_id=RUN)
    assert agent.ships("job-e1-c1").empty


@pytest.mark.parametrize("first_final", [False, True])
def test_a_save_does_not_push_another_of_its_kind_aside(first_final: bool) -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order("job-e1", 1, final=first_final))
    decision = agent.ordered(a_save_order("job-e1", 2, final=first_final))
    assert decision.effects == (SendReport(report=not_saved(CheckpointTrouble.SUPERSEDED, "job-e1-c2")),)


@pytest.mark.parametrize("phase", [phase for phase in ALL_PHASES if phase is not GuestPhase.RUNNING])
def test_only_a_running_guest_can_be_saved(phase: GuestPhase) -> None:
    agent = LoneAgent(a_guest(phase=phase))
    assert reports(agent.ordered(a_save_order())) == [not_saved(CheckpointTrouble.NO_GUEST)]


def test_nobody_can_be_saved_who_is_not_here() -> None:
    assert reports(LoneAgent().ordered(a_save_order())) == [not_saved(CheckpointTrouble.NO_GUEST)]


def test_a_save_that_cannot_be_shipped_is_reported_and_the_guest_goes_on() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves()
    decision = agent.cannot_ship(trouble=CheckpointTrouble.VAULT_FULL)
    assert reports(decision) == [not_saved(CheckpointTrouble.VAULT_FULL)]
    assert agent.guest().phase is GuestPhase.RUNNING


def test_a_last_save_that_cannot_be_shipped_ends_the_story_here() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order(final=True))
    agent.saves()
    agent.exits(code=None)
    decision = agent.cannot_ship(trouble=CheckpointTrouble.OLD_EPOCH)
    assert decision.forgotten == (RUN,)


def test_word_of_a_save_nobody_waits_for_changes_nothing() -> None:
    agent = an_agent_with_a_guest()
    assert agent.saves("job-e1-c7").empty
    assert agent.ships("job-e1-c7").empty
    assert agent.cannot_ship("job-e1-c7").empty
    agent.ordered(a_save_order())
    agent.saves()
    assert agent.saves().empty


def test_a_guest_that_ends_while_it_is_asked_to_save_has_not_saved() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    decision = agent.exits(code=1)
    assert reports(decision) == [not_saved(CheckpointTrouble.GUEST_ENDED)]
    assert timers_of(decision) == {"save:job-e1": None}


def test_a_save_already_on_its_way_may_arrive_after_the_guest_died() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves()
    agent.exits(code=None)
    assert agent.guest().phase is GuestPhase.SHIPPING
    decision = agent.ships()
    assert [type(report) for report in reports(decision)] == [CheckpointDurable]
    assert decision.forgotten == (RUN,)


def test_a_save_on_its_way_is_superfluous_when_the_guest_finishes() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves()
    decision = agent.exits(code=0)
    assert deeds(decision) == [CancelShipping(run_id=RUN), ShipOutput(run_id=RUN)]
    assert reports(decision) == [not_saved(CheckpointTrouble.GUEST_ENDED)]


def test_saved_run_me_again_without_a_request_ships_what_the_program_left() -> None:
    agent = an_agent_with_a_guest()
    decision = agent.exits(code=EXIT_SAVED, step=33)
    own = CheckpointId("job-e1-a1")
    assert decision.effects == (
        SendReport(
            report=CheckpointCaptured(
                run_id=RUN, job_id=JOB, epoch=1, checkpoint_id=own, step=33, progress=0.0, stall_s=0.0
            )
        ),
        ShipCheckpoint(run_id=RUN, checkpoint_id=own, step=33, progress=0.0, rate_bps=0.0),
        SendReport(report=the_end(EndReason.SAVED, last_step=33, exit_code=EXIT_SAVED)),
    )
    arrived = agent.ships("job-e1-a1", step=33)
    assert [r.final for r in reports(arrived) if isinstance(r, CheckpointDurable)] == [True]


def test_saved_run_me_again_after_a_request_answers_the_request() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order(final=True))
    decision = agent.exits(code=EXIT_SAVED, step=33)
    assert deeds(decision) == [
        ShipCheckpoint(run_id=RUN, checkpoint_id=C1, step=33, progress=0.0, rate_bps=1e6)
    ]
    assert timers_of(decision) == {"save:job-e1": None}
    assert agent.guest().final_saved


def test_saved_run_me_again_ships_the_newer_state_instead_of_a_periodic_save_on_its_way() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves(step=10)
    decision = agent.exits(code=EXIT_SAVED, step=50)
    own = CheckpointId("job-e1-a1")
    assert deeds(decision) == [
        CancelShipping(run_id=RUN),
        ShipCheckpoint(run_id=RUN, checkpoint_id=own, step=50, progress=0.0, rate_bps=0.0),
    ]
    assert reports(decision)[0] == not_saved(CheckpointTrouble.SUPERSEDED)
    assert agent.guest().phase is GuestPhase.SHIPPING


def test_finished_during_a_notice_is_finished() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    decision = agent.exits(code=0)
    assert deeds(decision) == [ShipOutput(run_id=RUN)]


def test_a_timer_nobody_knows_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no timer is called 'tea'"):
        LoneAgent().hears(TimerFired(key="tea"))


def test_the_end_of_a_guest_nobody_knows_changes_nothing() -> None:
    assert LoneAgent().hears(GuestExited(run_id=RUN, exit_code=0, last_step=0)).empty
