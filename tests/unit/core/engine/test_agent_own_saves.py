"""Within a notice an agent waits for the coordinator's plan, and where none comes it saves by itself."""

from __future__ import annotations

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.protocol.effects import AskToSave, SetTimer
from gpunion.domain.protocol.events import OwnerReclaimed, TimerFired
from gpunion.domain.protocol.reports import CheckpointFailed
from gpunion.domain.protocol.timers import agent_timer
from gpunion.domain.reasons.reason import Why
from tests.builders import TIMING, a_save_order, a_stop, an_agent_with_a_guest, deeds, reports, whys

RUN = RunId("job-e1")


def test_while_the_coordinator_is_near_its_plan_is_waited_for() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    decision = agent.fires("own_save")
    assert decision.effects == (
        SetTimer(timer=agent_timer("own_save"), at_s=agent.now_s + TIMING.own_save_patience_s),
    )


def test_the_last_wait_for_a_plan_ends_with_the_deadline() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=2))
    assert agent.fires("own_save").empty


def test_an_agent_whose_coordinator_is_away_saves_its_guests_by_itself() -> None:
    agent = an_agent_with_a_guest()
    agent.later(6).hears(OwnerReclaimed(notice_s=30))
    decision = agent.fires("own_save")
    deadline_s = agent.state.holding.deadline_s
    own = CheckpointId("job-e1-a1")
    assert deeds(decision) == [AskToSave(run_id=RUN, checkpoint_id=own, final=True, by_s=deadline_s)]
    assert whys(decision) == [Why.OWN_SAVE]


def test_an_agent_that_knows_that_it_is_cut_off_saves_at_the_first_look() -> None:
    agent = an_agent_with_a_guest()
    agent.state.cut_off = True
    agent.hears(OwnerReclaimed(notice_s=8))
    assert [type(deed) for deed in deeds(agent.fires("own_save"))] == [AskToSave]


def test_at_the_last_look_before_guests_are_told_to_end_one_missed_heartbeat_is_enough() -> None:
    for notice_s, asked in ((8, [AskToSave]), (30, [])):
        agent = an_agent_with_a_guest()
        agent.later(2).hears(OwnerReclaimed(notice_s=notice_s))
        assert [type(deed) for deed in deeds(agent.later(2).fires("own_save"))] == asked


def test_an_agent_that_never_had_a_lease_saves_by_itself() -> None:
    agent = an_agent_with_a_guest()
    agent.state.lease_until_s = None
    agent.hears(OwnerReclaimed(notice_s=30))
    assert [type(deed) for deed in deeds(agent.fires("own_save"))] == [AskToSave]


def test_a_save_the_coordinator_asked_for_is_not_asked_for_again() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order(final=True))
    agent.later(6).hears(OwnerReclaimed(notice_s=30))
    assert deeds(agent.fires("own_save")) == []


def test_a_periodic_save_gives_way_to_the_agent_s_own_last_one() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.later(6).hears(OwnerReclaimed(notice_s=30))
    decision = agent.fires("own_save")
    assert [type(report) for report in reports(decision)] == [CheckpointFailed]
    assert [deed.final for deed in deeds(decision) if isinstance(deed, AskToSave)] == [True]


def test_a_guest_on_its_way_out_is_not_asked_to_save() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_stop())
    agent.later(6).hears(OwnerReclaimed(notice_s=30))
    assert deeds(agent.fires("own_save")) == []


def test_nobody_is_saved_for_a_notice_that_is_over() -> None:
    agent = an_agent_with_a_guest()
    assert agent.hears(TimerFired(timer=agent_timer("own_save"))).empty


def test_a_last_save_that_runs_out_of_time_says_what_kept_it_from_arriving() -> None:
    agent = an_agent_with_a_guest()
    agent.later(6).hears(OwnerReclaimed(notice_s=30))
    agent.fires("own_save")
    agent.saves("job-e1-a1")
    assert reports(agent.cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE)) == []
    assert agent.cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE).changes == ()  # known already
    (failed,) = [r for r in reports(agent.later(30).fires("deadline")) if isinstance(r, CheckpointFailed)]
    assert failed.trouble is CheckpointTrouble.DEADLINE
    assert failed.places == "where its saves are kept did not answer, or take it"
