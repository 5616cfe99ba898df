"""An agent that starts again: guests it finds are adopted, dead ones buried, strangers ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.guest import Guest, GuestPhase, Holding, OwnerState, Saving
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.effects import (
    AskToSave,
    CancelShipping,
    KillGuest,
    LimitGuest,
    RemoveGuest,
    SetTimer,
    ShipCheckpoint,
    ShipOutput,
)
from gpunion.domain.protocol.events import AgentStarted, GuestFound, OwnerReclaimed, OwnerResumed
from gpunion.domain.protocol.reports import NodeReclaimed, RunStarted
from gpunion.domain.protocol.timers import LeaseOver
from gpunion.domain.reasons.reason import Why
from tests.builders import TIMING, LoneAgent, a_guest, deeds, ends, facts, reports, timers_of, whys

RUN = RunId("job-e1")
SAVING = Saving(checkpoint_id=CheckpointId("job-e1-c1"), final=False, rate_bps=1e6)
SAVED = Saving(checkpoint_id=CheckpointId("job-e1-c1"), final=False, rate_bps=1e6, saved=True, step=5)
ALIVE = GuestFound(run_id=RUN, alive=True, last_step=7)


def restarted(*guests: Guest, found: tuple[GuestFound, ...] = (ALIVE,), **more: bool):
    agent = LoneAgent(*guests, lease=False)
    return agent, agent.hears(AgentStarted(found=found, **more))


def test_a_running_guest_is_adopted_and_its_lease_watched() -> None:
    agent, decision = restarted(a_guest())
    assert decision.effects == (SetTimer(timer=LeaseOver(), at_s=agent.now_s + TIMING.lease_s),)
    assert decision.reasons[0].sentence() == "job-e1 was still alive after the agent's restart"


def test_an_adopted_guest_may_go_on_as_long_as_its_owner_allows() -> None:
    agent = LoneAgent(a_guest(), lease=False, of=facts(terms=Terms(autonomy_s=60)))
    decision = agent.hears(AgentStarted(found=(ALIVE,)))
    assert timers_of(decision) == {"lease": agent.now_s + TIMING.lease_s + 60}


def test_a_guest_that_started_meanwhile_is_adopted_as_running() -> None:
    agent, decision = restarted(a_guest(phase=GuestPhase.STARTING))
    assert agent.guest().phase is GuestPhase.RUNNING
    assert reports(decision) == [
        RunStarted(run_id=RUN, job_id=JobId("job"), epoch=1, restored=None, resumed_step=7, restore_s=0.0)
    ]


def test_a_guest_that_was_just_restored_is_as_far_as_what_it_was_restored_from() -> None:
    """Else its next saves would count as older than the one it came from, and be ignored."""
    silent = GuestFound(run_id=RUN, alive=True, last_step=0)
    restored = a_guest(phase=GuestPhase.STARTING, restore=SAVED.checkpoint_id, restore_step=40)
    agent, decision = restarted(restored, found=(silent,))
    assert agent.guest().last_step == 40
    assert reports(decision) == [
        RunStarted(
            run_id=RUN,
            job_id=JobId("job"),
            epoch=1,
            restored=SAVED.checkpoint_id,
            resumed_step=40,
            restore_s=0.0,
        )
    ]


def test_a_guest_that_was_to_go_is_made_to_go() -> None:
    _, decision = restarted(a_guest(phase=GuestPhase.ENDING, end_cause=EndReason.STOPPED))
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.STOPPED)]
    _, decision = restarted(a_guest(phase=GuestPhase.ENDING))
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.STOPPED)]


def test_a_save_that_was_asked_for_is_asked_for_again() -> None:
    _, decision = restarted(a_guest(saving=SAVING))
    assert deeds(decision) == [
        AskToSave(run_id=RUN, checkpoint_id=SAVING.checkpoint_id, final=False, by_s=None)
    ]


@pytest.mark.parametrize("found", [(GuestFound(run_id=RUN, alive=False, exit_code=137),), ()])
def test_a_last_save_is_shipped_also_when_its_guest_died_without_an_agent(
    found: tuple[GuestFound, ...],
) -> None:
    """Found by killing agents while whole guests moved: it was kept until the deadline and never sent."""
    last = replace(SAVED, final=True)
    leaving = a_guest(
        saving=last, phase=GuestPhase.ENDING, final_saved=True, end_cause=EndReason.SAVED, last_step=5
    )
    agent, decision = restarted(leaving, found=found)
    assert deeds(decision) == [
        ShipCheckpoint(run_id=RUN, checkpoint_id=last.checkpoint_id, step=5, progress=0.0, rate_bps=1e6)
    ]
    assert agent.guest().phase is GuestPhase.SHIPPING


def test_a_save_that_was_written_is_shipped_again() -> None:
    _, decision = restarted(a_guest(saving=SAVED))
    assert deeds(decision) == [
        ShipCheckpoint(run_id=RUN, checkpoint_id=SAVED.checkpoint_id, step=5, progress=0.0, rate_bps=1e6)
    ]


def test_a_guest_that_is_gone_has_its_last_save_shipped_on() -> None:
    agent, decision = restarted(a_guest(phase=GuestPhase.SHIPPING, saving=SAVED), found=())
    assert [type(deed) for deed in deeds(decision)] == [ShipCheckpoint]
    assert agent.guest().phase is GuestPhase.SHIPPING
    assert agent.timer_at("lease") is None


def test_a_guest_that_finished_has_its_output_shipped_on() -> None:
    _, decision = restarted(a_guest(phase=GuestPhase.SHIPPING, exit_code=0), found=())
    assert deeds(decision) == [ShipOutput(run_id=RUN)]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (GuestFound(run_id=RUN, alive=False, cause=EndReason.LEASE_ENDED), EndReason.LEASE_ENDED),
        (GuestFound(run_id=RUN, alive=False), EndReason.GUEST_LOST),
    ],
)
def test_a_guest_that_died_meanwhile_is_reported_as_its_keeper_saw_it(
    found: GuestFound, reason: EndReason
) -> None:
    agent, decision = restarted(a_guest(), found=(found,))
    assert ends(decision) == [reason]
    assert agent.state.guests == {}


@pytest.mark.parametrize("code", [0, 2])
def test_a_guest_that_ended_by_itself_meanwhile_has_its_output_shipped(code: int) -> None:
    _, decision = restarted(a_guest(), found=(GuestFound(run_id=RUN, alive=False, exit_code=code),))
    assert deeds(decision) == [ShipOutput(run_id=RUN)]


@pytest.mark.parametrize("phase", [GuestPhase.RUNNING, GuestPhase.ENDING])
def test_a_guest_of_which_nothing_is_left_is_reported_lost(phase: GuestPhase) -> None:
    _, decision = restarted(a_guest(phase=phase), found=())
    assert ends(decision) == [EndReason.GUEST_LOST]


def test_a_guest_that_was_starting_and_left_nothing_failed_to_start() -> None:
    for found in ((), (GuestFound(run_id=RUN, alive=False),)):
        _, decision = restarted(a_guest(phase=GuestPhase.STARTING), found=found)
        assert ends(decision) == [EndReason.START_FAILED]


def test_a_guest_that_started_and_ended_meanwhile_has_ended() -> None:
    _, decision = restarted(
        a_guest(phase=GuestPhase.STARTING), found=(GuestFound(run_id=RUN, alive=False, exit_code=3),)
    )
    assert deeds(decision) == [ShipOutput(run_id=RUN)]


def test_a_stranger_is_ended() -> None:
    _, decision = restarted(found=(ALIVE, GuestFound(run_id=RunId("dead-e1"), alive=False)))
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.STOPPED)]
    assert whys(decision) == [Why.STRANGER_ENDED]


def test_an_owner_who_killed_while_no_agent_listened_is_heard() -> None:
    agent, decision = restarted(
        a_guest(), found=(GuestFound(run_id=RUN, alive=False),), killed_meanwhile=True
    )
    assert agent.state.holding.killed
    assert NodeReclaimed(freed_after_s=0.0, killed=True) in reports(decision)
    assert ends(decision) == [EndReason.KILLED_BY_OWNER]


def test_a_kill_that_is_already_known_is_not_told_again() -> None:
    agent = LoneAgent(lease=False)
    agent.state.holding = Holding(owner_state=OwnerState.RECLAIMED, killed=True)
    assert agent.hears(AgentStarted(found=(), killed_meanwhile=True)).empty


def test_a_deadline_that_came_while_no_agent_listened_is_kept() -> None:
    agent = LoneAgent(a_guest(), lease=False)
    agent.state.holding = Holding(owner_state=OwnerState.RECLAIMING, asked_s=50.0, deadline_s=90.0)
    decision = agent.hears(AgentStarted(found=(ALIVE,)))
    assert KillGuest(run_id=RUN, cause=EndReason.DEADLINE) in deeds(decision)


def test_what_was_being_shipped_to_a_deadline_that_came_is_cut() -> None:
    agent = LoneAgent(a_guest(phase=GuestPhase.SHIPPING, saving=SAVED, final_saved=True), lease=False)
    agent.state.holding = Holding(owner_state=OwnerState.RECLAIMING, asked_s=50.0, deadline_s=90.0)
    decision = agent.hears(AgentStarted(found=()))
    assert set(map(type, deeds(decision))) == {CancelShipping, RemoveGuest}
    assert agent.state.holding.owner_state is OwnerState.RECLAIMED


def test_before_the_first_welcome_keepers_learn_deadlines_and_keep_their_lease() -> None:
    """The agent forgot when the lease ends; the keepers did not, and must not be told otherwise."""
    agent, _ = restarted(a_guest())
    reclaimed = agent.hears(OwnerReclaimed(notice_s=60))
    resumed = agent.hears(OwnerResumed())
    limits = [deed for deed in (*deeds(reclaimed), *deeds(resumed)) if isinstance(deed, LimitGuest)]
    assert [limit.lease_until_s for limit in limits] == [None, None]
    assert [limit.kill_at_s is not None for limit in limits] == [True, False]
    assert [type(deed).__name__ for deed in deeds(agent.renews())] == ["LimitGuest"]


def test_a_notice_that_a_reboot_cut_through_is_over() -> None:
    agent = LoneAgent(a_guest(), lease=False)
    agent.state.holding = Holding(owner_state=OwnerState.RECLAIMING, asked_s=50.0, deadline_s=1e9)
    agent.hears(AgentStarted(found=(), rebooted=True))
    assert agent.state.holding.owner_state is OwnerState.RECLAIMED


GIVEN = CheckpointId("job-e0-c3")


@pytest.mark.parametrize("phase", [GuestPhase.STARTING, GuestPhase.RUNNING])
def test_who_fails_with_what_it_was_given_while_its_agent_dies_is_lost_and_blames_no_save(
    phase: GuestPhase,
) -> None:
    guest = a_guest(phase=phase, restore=GIVEN, restore_step=40, last_step=40)
    dead = GuestFound(run_id=RUN, alive=False, exit_code=137, last_step=0)
    _, decision = restarted(guest, found=(dead,))
    assert ends(decision) == [EndReason.GUEST_LOST]


@pytest.mark.parametrize(
    ("exit_code", "last_step", "restore", "phase"),
    [
        (1, 41, GIVEN, GuestPhase.SHIPPING),  # it had worked: its failure is its own
        (1, 0, None, GuestPhase.SHIPPING),  # it was given nothing
        (0, 40, GIVEN, GuestPhase.SHIPPING),  # it had finished
    ],
)
def test_whose_end_is_its_own_is_told_as_that_whoever_died_with_it(
    exit_code: int, last_step: int, restore: CheckpointId | None, phase: GuestPhase
) -> None:
    guest = a_guest(restore=restore, restore_step=40 if restore else 0)
    dead = GuestFound(run_id=RUN, alive=False, exit_code=exit_code, last_step=last_step)
    agent, _ = restarted(guest, found=(dead,))
    assert (agent.guest().phase, agent.guest().exit_code) == (phase, exit_code)
