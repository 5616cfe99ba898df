"""A guest's saves on its machine: asked for, written, shipped, given up, and the last of all."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import GuestPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import (
    AskToSave,
    CancelShipping,
    CancelTimer,
    KillGuest,
    SendReport,
    SetTimer,
    ShipCheckpoint,
    ShipOutput,
)
from gpunion.domain.protocol.events import GuestCouldNotSave, TimerFired
from gpunion.domain.protocol.reports import (
    Capture,
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    RunEnded,
)
from gpunion.domain.protocol.timers import agent_timer
from gpunion.domain.resources import MIB
from gpunion.domain.system_tier import Tier
from gpunion.engine.agent.guests import EXIT_SAVED
from tests.builders import (
    TIMING,
    LoneAgent,
    a_guest,
    a_save_order,
    an_agent_with_a_guest,
    deeds,
    not_saved,
    reports,
    the_end,
    timers_of,
)

RUN = RunId("job-e1")
JOB = JobId("job")
C1 = CheckpointId("job-e1-c1")
ALL_PHASES = list(GuestPhase)


def test_a_save_is_asked_for_written_shipped_and_reported() -> None:
    agent = an_agent_with_a_guest()
    asked = agent.ordered(a_save_order(rate_bps=5e6))
    assert asked.effects == (
        AskToSave(run_id=RUN, checkpoint_id=C1, final=False, by_s=None),
        SetTimer(timer=agent_timer("save:job-e1"), at_s=agent.now_s + TIMING.save_timeout_s),
    )
    written = agent.saves(step=10)
    assert written.effects == (
        ShipCheckpoint(run_id=RUN, checkpoint_id=C1, step=10, progress=0.5, rate_bps=5e6),
    )
    arrived = agent.later(7).ships(step=10, elsewhere="attic: no room")
    assert CancelTimer(timer=agent_timer("save:job-e1")) in arrived.effects
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
    assert reports(agent.hears(TimerFired(timer=agent_timer("save:job-e1")))) == [on_its_way]
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
    assert agent.hears(TimerFired(timer=agent_timer("save:job-e1"))).empty
    assert agent.hears(TimerFired(timer=agent_timer("save:ghost-e1"))).empty


def test_a_save_written_in_time_is_not_given_up() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves()
    agent.hears(TimerFired(timer=agent_timer("save:job-e1")))
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
    trouble = CheckpointTrouble.OVER if phase is GuestPhase.SHIPPING else CheckpointTrouble.NO_GUEST
    assert reports(agent.ordered(a_save_order())) == [not_saved(trouble)]


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


COULD_NOT = GuestCouldNotSave(run_id=RUN, checkpoint_id=C1, why="no space left")
NOT_SAVED = CheckpointFailed(
    run_id=RUN,
    job_id=JOB,
    epoch=1,
    checkpoint_id=C1,
    trouble=CheckpointTrouble.NOT_SAVED,
    places="no space left",
)


def test_a_program_that_says_why_it_could_not_save_is_not_waited_for() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    assert reports(agent.hears(COULD_NOT)) == [NOT_SAVED]
    assert agent.guest().saving is None
    assert agent.hears(COULD_NOT).empty  # said late, of a save that is given up


def test_a_last_save_that_its_program_could_not_make_may_still_come_and_else_the_reason_is_told() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order(final=True))
    assert reports(agent.hears(COULD_NOT)) == []
    assert reports(agent.fires("save:job-e1")) == [NOT_SAVED]
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order(final=True))
    agent.hears(COULD_NOT)
    assert any(isinstance(one, CheckpointCaptured) for one in reports(agent.saves(step=10)))
