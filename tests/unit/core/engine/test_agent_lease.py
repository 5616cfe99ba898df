"""The lease: how long guests may go on without the coordinator, enforced by the agent and the keepers."""

from __future__ import annotations

from gpunion.domain.effects import AskToSave, CancelTimer, KillGuest, LimitGuest, SetTimer
from gpunion.domain.events import LeaseRenewed
from gpunion.domain.guest import GuestPhase, Lease
from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.reasons import Why
from gpunion.domain.reports import RunEnded
from gpunion.domain.run import EndReason
from gpunion.domain.terms import Terms
from tests.builders import (
    TIMING,
    LoneAgent,
    a_save_order,
    a_start,
    an_agent_with_a_guest,
    deeds,
    facts,
    reports,
    timers_of,
    whys,
)

RUN = RunId("job-e1")


def test_a_renewal_moves_the_timer_and_the_keepers_limits() -> None:
    agent = an_agent_with_a_guest()
    decision = agent.later(4).renews()
    until_s = agent.now_s + TIMING.lease_s
    assert decision.changes == (Lease(until_s=until_s),)
    assert decision.effects == (
        SetTimer(key="lease", at_s=until_s),
        LimitGuest(run_id=RUN, lease_until_s=until_s + TIMING.grace_s, kill_at_s=None),
    )


def test_a_late_answer_to_an_earlier_heartbeat_shortens_nothing() -> None:
    agent = an_agent_with_a_guest()
    agent.later(4).renews()
    assert agent.hears(LeaseRenewed(until_s=agent.now_s + 1)).empty


def test_without_guests_nobody_watches_the_lease() -> None:
    agent = LoneAgent()
    assert agent.timers.items() == ()
    agent.ordered(a_start())
    agent.exits(code=1)
    assert timers_of(agent.later(1).renews()) == {"lease": None}


def test_a_lease_that_runs_out_asks_for_a_last_save_in_the_grace() -> None:
    agent = an_agent_with_a_guest()
    decision = agent.fires("lease")
    end_s = agent.now_s + TIMING.grace_s
    own = CheckpointId("job-e1-a1")
    assert deeds(decision) == [AskToSave(run_id=RUN, checkpoint_id=own, final=True, by_s=end_s)]
    assert timers_of(decision) == {"save:job-e1": end_s, "lease_end": end_s}
    assert whys(decision) == [Why.OWN_SAVE]


def test_a_lease_that_stays_out_ends_the_guests() -> None:
    agent = an_agent_with_a_guest()
    agent.fires("lease")
    decision = agent.fires("lease_end")
    assert KillGuest(run_id=RUN, cause=EndReason.LEASE_ENDED) in deeds(decision)
    ended = agent.exits(code=None, cause=EndReason.LEASE_ENDED)
    assert [r.reason for r in reports(ended) if isinstance(r, RunEnded)] == [EndReason.LEASE_ENDED]


def test_a_guest_that_saved_in_the_grace_has_saved() -> None:
    agent = an_agent_with_a_guest()
    agent.fires("lease")
    agent.saves("job-e1-a1", step=20)
    ended = agent.exits(code=None, cause=EndReason.SAVED)
    [end] = [report for report in reports(ended) if isinstance(report, RunEnded)]
    assert (end.reason, end.saved_for, end.at_s) == (EndReason.SAVED, EndReason.LEASE_ENDED, agent.now_s)


def test_a_renewal_in_the_grace_keeps_the_guests() -> None:
    agent = an_agent_with_a_guest()
    agent.fires("lease")
    decision = agent.later(1).renews()
    assert CancelTimer(key="lease_end") in decision.effects
    assert agent.guest().phase is GuestPhase.RUNNING
    assert agent.timers.at("lease_end") is None


def test_an_owner_may_let_guests_go_on_longer_alone() -> None:
    agent = an_agent_with_a_guest(of=facts(gpus=2, terms=Terms(autonomy_s=3600)))
    assert agent.timers.at("lease") == agent.now_s + TIMING.lease_s + 3600


def test_a_last_save_already_asked_for_is_not_asked_for_again() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order(final=True))
    assert deeds(agent.fires("lease")) == []


def test_a_guest_that_only_starts_is_not_asked_to_save() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    assert deeds(agent.fires("lease")) == []
    assert deeds(agent.fires("lease_end")) == [KillGuest(run_id=RUN, cause=EndReason.LEASE_ENDED)]
