"""What the agent of one member does otherwise than for a job that runs alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.effects import AskToSave, ParkGuest, ShipCheckpoint
from gpunion.domain.protocol.events import AgentStarted, GuestFound, GuestStarted, OwnerReclaimed
from tests.builders import LoneAgent, a_save_order, a_start, deeds, facts


def a_member_here(**more: Any) -> LoneAgent:
    agent = LoneAgent(of=replace(facts(gpus=2), parks=True, terms=Terms(park=True)))
    saved = CheckpointId("job-e0-c9")
    order = a_start(seat=Seat(size=2), restore=saved, restore_step=9, keep=CheckpointId("job-e0-c7"), **more)
    agent.ordered(order)
    agent.hears(GuestStarted(run_id=order.run_id, restored=order.restore, resumed_step=9, restore_s=0.1))
    return agent


def test_a_member_is_asked_to_save_at_a_step_also_by_an_agent_that_was_restarted() -> None:
    agent = a_member_here()
    [asked] = deeds(agent.ordered(a_save_order(at_step=40)))
    assert isinstance(asked, AskToSave)
    assert asked.at_step == 40
    found = GuestFound(run_id=asked.run_id, alive=True, last_step=30)
    assert asked in deeds(agent.hears(AgentStarted(found=(found,))))


def test_what_all_might_go_back_to_is_kept_with_every_save() -> None:
    agent = a_member_here()
    agent.ordered(a_save_order())
    assert agent.guest().keep == "job-e0-c7"
    agent.saves(step=40)
    agent.ships(step=40)
    agent.ordered(a_save_order(number=2, keep=CheckpointId("job-e1-c1")))
    [shipped] = deeds(agent.saves("job-e1-c2", step=50))
    assert isinstance(shipped, ShipCheckpoint)
    assert shipped.keep == "job-e1-c1"


def test_a_member_is_not_parked_since_the_others_would_stand_still_on_their_gpus() -> None:
    agent = a_member_here()
    notice = agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    assert not any(isinstance(effect, ParkGuest) for effect in notice.effects)
