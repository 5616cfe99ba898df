"""Going when it is safe: a last save is tried again for as long as there is time."""

from __future__ import annotations

from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.protocol.effects import ShipCheckpoint
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed
from tests.builders import an_agent_with_a_guest, deeds, reports, timers_of


def test_a_last_save_the_vault_did_not_take_is_sent_again_until_the_deadline() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.hears(OwnerReclaimed(notice_s=300.0, when_safe=True))
    agent.later(9.0)
    agent.fires("own_save")
    agent.saves("job-e1-a1")
    agent.exits(code=85)
    again = agent.cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE)
    assert timers_of(again) == {"ship:job-e1": agent.now_s + 2.0}
    assert not reports(again)
    assert isinstance(deeds(agent.fires("ship:job-e1"))[0], ShipCheckpoint)
    agent.ships("job-e1-a1")
    assert agent.state.holding.owner_state is OwnerState.RECLAIMED
    agent.hears(OwnerResumed())


def test_without_that_word_it_is_sent_again_too_and_lost_only_when_no_time_is_left() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.later(9.0).hears(OwnerReclaimed(notice_s=300.0))
    agent.fires("own_save")
    agent.saves("job-e1-a1")
    assert not reports(agent.cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE))
    agent.fires("ship:job-e1")
    agent.later(409.0 - 1.0 - agent.now_s)
    assert reports(agent.cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE))


def test_who_does_not_answer_is_asked_again() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.hears(OwnerReclaimed(notice_s=300.0, when_safe=True))
    while agent.guest().own_saves == 0:
        agent.renews()
        agent.fires("own_save")
    assert agent.now_s >= 110.0  # first the coordinator's plan was waited for
    agent.fires("save:job-e1")
    agent.renews()
    agent.fires("own_save")
    assert agent.guest().own_saves == 2
