"""The lease: how long guests may go on without the coordinator, enforced by the agent and the keepers."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import GuestPhase, Lease
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.effects import (
    AskToSave,
    CancelTimer,
    KillGuest,
    LimitGuest,
    SetTimer,
    ShipCheckpoint,
)
from gpunion.domain.protocol.events import LeaseRenewed
from gpunion.domain.protocol.reports import CheckpointDurable, CheckpointFailed, RunEnded
from gpunion.domain.protocol.timers import LeaseGraceOver, LeaseOver
from gpunion.domain.reasons.reason import Why
from gpunion.engine.agent.saves import OUT_OF_TOUCH_PATIENCE_S
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
        SetTimer(timer=LeaseOver(), at_s=until_s),
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
    assert CancelTimer(timer=LeaseGraceOver()) in decision.effects
    assert agent.guest().phase is GuestPhase.RUNNING
    assert agent.timer_at("lease_end") is None


def test_an_owner_may_let_guests_go_on_longer_alone() -> None:
    agent = an_agent_with_a_guest(of=facts(gpus=2, terms=Terms(autonomy_s=3600)))
    assert agent.timer_at("lease") == agent.now_s + TIMING.lease_s + 3600


def test_a_last_save_already_asked_for_is_not_asked_for_again() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order(final=True))
    assert deeds(agent.fires("lease")) == []


def test_a_guest_that_only_starts_is_not_asked_to_save() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    assert deeds(agent.fires("lease")) == []
    assert deeds(agent.fires("lease_end")) == [KillGuest(run_id=RUN, cause=EndReason.LEASE_ENDED)]


def test_a_last_save_that_finds_no_vault_while_nobody_is_heard_is_kept_and_tried_again() -> None:
    """A vault that is reached through the coordinator is away with it."""
    agent = an_agent_with_a_guest()
    agent.later(TIMING.lease_s).fires("lease")
    agent.saves("job-e1-a1", step=50)
    agent.exits(code=None)
    away = agent.cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE)
    assert not reports(away)
    assert isinstance(deeds(agent.later(2).fires("ship:job-e1"))[0], ShipCheckpoint)
    agent.later(900).cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE)
    agent.fires("ship:job-e1")
    (arrived,) = reports(agent.ships("job-e1-a1", step=50))
    assert isinstance(arrived, CheckpointDurable)


@pytest.mark.parametrize(
    ("later_s", "near", "trouble"),
    [
        (OUT_OF_TOUCH_PATIENCE_S + 1, False, CheckpointTrouble.VAULT_UNAVAILABLE),
        (5.0, True, CheckpointTrouble.VAULT_UNAVAILABLE),  # who is heard can decide
        (5.0, False, CheckpointTrouble.VAULT_FULL),
    ],
)
def test_it_is_given_up_after_an_hour_or_when_waiting_is_of_no_use(
    later_s: float, near: bool, trouble: CheckpointTrouble
) -> None:
    agent = an_agent_with_a_guest()
    agent.later(TIMING.lease_s).fires("lease")
    agent.saves("job-e1-a1", step=50)
    agent.exits(code=None)
    agent.later(later_s)
    if near:
        agent.renews()
    assert isinstance(reports(agent.cannot_ship("job-e1-a1", trouble))[0], CheckpointFailed)
    assert RUN not in agent.state.guests
