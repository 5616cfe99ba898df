"""How a guest's life on its machine ends: stopped, finished, failed; asked first, shipped, then told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import GuestPhase, Saving
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import (
    AskToSave,
    CancelShipping,
    KillGuest,
    RemoveGuest,
    SetTimer,
    ShipOutput,
    TerminateGuest,
)
from gpunion.domain.protocol.events import (
    GuestExited,
    KeptOutputSent,
    OutputShipped,
    OwnerKilled,
    OwnerReclaimed,
    TimerFired,
)
from gpunion.domain.protocol.reports import CheckpointDurable, OutputArrived, RunEnded
from gpunion.domain.protocol.timers import agent_timer
from tests.builders import (
    TIMING,
    LoneAgent,
    a_guest,
    a_save_order,
    a_stop,
    an_agent_with_a_guest,
    deeds,
    not_saved,
    reports,
    the_end,
    timers_of,
)

RUN = RunId("job-e1")
C1 = CheckpointId("job-e1-c1")


@pytest.mark.parametrize("phase", [GuestPhase.STARTING, GuestPhase.RUNNING])
def test_a_guest_that_is_stopped_is_asked_first_and_killed_later(phase: GuestPhase) -> None:
    agent = LoneAgent(a_guest(phase=phase))
    decision = agent.ordered(a_stop())
    assert decision.effects == (
        TerminateGuest(run_id=RUN),
        SetTimer(timer=agent_timer("kill:job-e1"), at_s=agent.now_s + TIMING.stop_grace_s),
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
    assert LoneAgent().hears(TimerFired(timer=agent_timer("kill:job-e1"))).empty


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
    assert reports(decision) == [the_end(EndReason.OUTPUT_LOST, exit_code=0, detail="the vault is full")]


def test_of_an_output_that_stays_here_it_is_told_until_when() -> None:
    kept = OutputShipped(run_id=RUN, output=None, detail="the vault is full", kept="Tuesday")
    agent = an_agent_with_a_guest()
    agent.exits(code=0)
    lost = the_end(EndReason.OUTPUT_LOST, exit_code=0, detail="the vault is full", kept="Tuesday")
    assert reports(agent.hears(kept)) == [lost]
    agent = an_agent_with_a_guest()
    agent.exits(code=1)
    (failed,) = reports(agent.hears(kept))
    assert isinstance(failed, RunEnded)
    assert "what it made stays on its machine until Tuesday" in failed.detail
    sent = KeptOutputSent(run_id=RUN, job_id=failed.job_id, epoch=1, output=CheckpointId("out"))
    assert reports(agent.hears(sent)) == [
        OutputArrived(run_id=RUN, job_id=failed.job_id, epoch=1, output=CheckpointId("out"))
    ]


def test_an_output_that_nobody_could_keep_fails_its_job_with_the_reason_and_is_not_made_again() -> None:
    agent = an_agent_with_a_guest()
    agent.exits(code=0)
    decision = agent.hears(OutputShipped(run_id=RUN, output=None, detail="too deep", hopeless=True))
    assert reports(decision) == [the_end(EndReason.FAILED, exit_code=0, detail="too deep")]


def test_what_was_left_out_of_an_output_is_told_with_its_end() -> None:
    agent = an_agent_with_a_guest()
    agent.exits(code=0)
    decision = agent.hears(OutputShipped(run_id=RUN, output=CheckpointId("out"), left_out="without l"))
    finished = the_end(EndReason.FINISHED, exit_code=0, output=CheckpointId("out"), detail="without l")
    assert reports(decision) == [finished]


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


def test_finished_during_a_notice_is_finished() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    decision = agent.exits(code=0)
    assert deeds(decision) == [ShipOutput(run_id=RUN)]


def test_the_end_of_a_guest_nobody_knows_changes_nothing() -> None:
    assert LoneAgent().hears(GuestExited(run_id=RUN, exit_code=0, last_step=0)).empty
