"""What a commit means: the same under other names, another where another decision was made."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

import pytest

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.protocol.decision import AgentDecision, Decision
from gpunion.domain.protocol.effects import SendOrder, SetTimer
from gpunion.domain.protocol.events import (
    GuestCouldNotSave,
    JobSubmitted,
    LeaseRenewed,
    NodeHeard,
    TimerFired,
)
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.timers import LeaseOver, SaveOverdue
from gpunion.domain.reasons.reason import Why, because
from gpunion.engine.behaviour import line
from tests.builders.values import a_job

HEARD = NodeHeard(node_id=NodeId("node-1"))


def a_commit(event: Any = HEARD, **decided: Any) -> Commit:
    return Commit(at_s=1.5, event=event, decision=Decision(**decided))


def made(name: str, *fields: Any, **values: Any) -> Any:
    """An event as another version of the code might have it."""
    return dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True)(**values)


def test_a_renamed_event_and_a_renamed_field_mean_the_same_once_the_table_says_so() -> None:
    renamed = made("MachineHeard", ("machine_id", str), machine_id="node-1")
    names = {"MachineHeard": "NodeHeard", "MachineHeard.machine_id": "node_id"}
    assert line(a_commit(renamed)) != line(a_commit())
    assert line(a_commit(renamed), names) == line(a_commit())


def test_a_renamed_member_of_an_enum_means_the_same_once_the_table_says_so() -> None:
    class Ended(Enum):
        DONE = "is_done"

    event = ("why", str), ("ended", Enum)
    before = made("Ended", *event, why="", ended=EndReason.FINISHED)
    after = made("Ended", *event, why="", ended=Ended.DONE)
    assert line(a_commit(after)) != line(a_commit(before))
    assert line(a_commit(after), {"Ended.DONE": EndReason.FINISHED.value}) == line(a_commit(before))


def test_a_new_field_counts_only_where_it_is_not_at_its_default() -> None:
    new: tuple[Any, ...] = (
        ("node_id", str),
        ("gpus", tuple, dataclasses.field(default=())),
        ("seen", list, dataclasses.field(default_factory=list)),
    )
    assert line(a_commit(made("NodeHeard", *new, node_id="node-1"))) == line(a_commit())
    assert line(a_commit(made("NodeHeard", *new, node_id="node-1", gpus=(1,)))) != line(a_commit())
    assert line(a_commit(made("NodeHeard", *new, node_id="node-1", seen=[1]))) != line(a_commit())


def test_the_order_of_fields_and_of_sets_means_nothing() -> None:
    one = made("Seen", ("gpus", set), ("of", dict), gpus={"a", "b", "c"}, of={"x": 1, "y": 2})
    other = made("Seen", ("of", dict), ("gpus", set), gpus={"c", "b", "a"}, of={"y": 2, "x": 1})
    assert line(a_commit(one)) == line(a_commit(other))


def test_sentences_and_facts_for_people_mean_nothing_and_the_code_of_a_reason_does() -> None:
    def could_not(why: str) -> Commit:
        event = GuestCouldNotSave(run_id=RunId("job-1-e1"), checkpoint_id=CheckpointId("c"), why=why)
        return a_commit(event)

    assert line(could_not("no space")) == line(could_not("its disk is full"))

    def reasoned(why: Why, **facts: int) -> str:
        return line(a_commit(reasons=(because("job-1", why, **facts),)))

    assert reasoned(Why.WAITING, place=1) == reasoned(Why.WAITING, place=2)
    assert reasoned(Why.WAITING) != reasoned(Why.SAVED)


def test_a_key_is_neither_compared_nor_written_down() -> None:
    event = JobSubmitted(job_id=JobId("job-1"), spec=a_job().spec, vault_key="secret-key")
    assert "secret-key" not in line(a_commit(event))


def test_another_order_another_time_and_another_phase_are_another_behaviour() -> None:
    plain = a_commit()
    order = StopRun(run_id=RunId("job-1-e1"), job_id=JobId("job-1"), epoch=1)
    lines = {
        line(plain),
        line(dataclasses.replace(plain, at_s=1.5000001)),
        line(a_commit(effects=(SendOrder(node_id=NodeId("node-1"), order=order),))),
        line(a_commit(effects=(SendOrder(node_id=NodeId("node-2"), order=order),))),
        line(a_commit(changes=(a_job(),))),
    }
    assert len(lines) == 5


def test_a_timer_is_told_as_its_text() -> None:
    timer, at_s = SaveOverdue(run_id=RunId("job-e1")), 3.0
    assert "[('key', 'save:job-e1')]" in line(a_commit(TimerFired(timer=timer)))
    assert "('key', 'save:job-e1')" in line(a_commit(effects=(SetTimer(timer=timer, at_s=at_s),)))


def test_a_renewed_lease_is_its_time_and_a_forgotten_guest_is_told() -> None:
    renewed = AgentCommit(at_s=2.0, event=LeaseRenewed(until_s=9.0), decision=AgentDecision())
    assert line(renewed) == (2.0).hex()
    gone = AgentCommit(
        at_s=2.0, event=TimerFired(timer=LeaseOver()), decision=AgentDecision(forgotten=(RunId("r"),))
    )
    stays = dataclasses.replace(gone, decision=AgentDecision())
    assert line(gone) != line(stays)


def test_what_cannot_be_told_is_a_mistake_and_no_address_in_memory() -> None:
    with pytest.raises(TypeError, match="only records"):
        line(a_commit(object()))
