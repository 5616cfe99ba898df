"""A timer and its text: stored as one, brought back as the other."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import MigrationId, NodeId, RunId
from gpunion.domain.protocol.timers import (
    AgentTimer,
    CoordinatorTimer,
    Deadline,
    EvacuationDue,
    FenceOver,
    KillDue,
    LastSaveOverdue,
    LastSeconds,
    LeaseGraceOver,
    LeaseOver,
    LessonDue,
    OneGpu,
    OneGuest,
    OwnSave,
    ParkedLongEnough,
    ParkedTooLong,
    PieceOverdue,
    ReplanDue,
    SaveDue,
    SaveOverdue,
    ShipAgain,
    SilentTooLong,
    StartOverdue,
    TurnOver,
    TurnToLeave,
    UnknownTimer,
    WholeMachine,
    WindowEnds,
    agent_timer,
    coordinator_timer,
    of_notice,
    text_of,
)

RUN, NODE = RunId("job-e1"), NodeId("alpha")
OF_THE_COORDINATOR: dict[str, CoordinatorTimer] = {
    "checkpoint:job-e1": SaveDue(run_id=RUN),
    "give_up:job-e1": SilentTooLong(run_id=RUN),
    "fence:job-e1": FenceOver(run_id=RUN),
    "start:job-e1": StartOverdue(run_id=RUN),
    "flush:job-m1": LastSaveOverdue(migration_id=MigrationId("job-m1")),
    "lesson": LessonDue(),
    "evacuate:alpha": EvacuationDue(node_id=NODE),
    "leave:alpha": TurnToLeave(node_id=NODE),
    "turn": TurnOver(),
    "parked:job-e1": ParkedLongEnough(run_id=RUN),
    "piece:job-e1": PieceOverdue(run_id=RUN),
    "replan": ReplanDue(),
}
OF_AN_AGENT: dict[str, AgentTimer] = {
    "deadline": Deadline(of=WholeMachine()),
    "term:gpu:3": LastSeconds(of=OneGpu(index=3)),
    "own_save:guest:job-e1": OwnSave(of=OneGuest(run_id=RUN)),
    "lease": LeaseOver(),
    "lease_end": LeaseGraceOver(),
    "window:job-e1": WindowEnds(run_id=RUN),
    "save:job-e1": SaveOverdue(run_id=RUN),
    "ship:job-e1": ShipAgain(run_id=RUN),
    "park:job-e1": ParkedTooLong(run_id=RUN),
    "kill:job-e1": KillDue(run_id=RUN),
}


@pytest.mark.parametrize(("text", "timer"), OF_THE_COORDINATOR.items())
def test_a_coordinators_timer_has_a_text_and_is_read_from_it(text: str, timer: CoordinatorTimer) -> None:
    assert text_of(timer) == text
    assert coordinator_timer(text) == timer


@pytest.mark.parametrize(("text", "timer"), OF_AN_AGENT.items())
def test_an_agents_timer_has_a_text_and_is_read_from_it(text: str, timer: AgentTimer) -> None:
    assert text_of(timer) == text
    assert agent_timer(text) == timer


def test_every_kind_of_timer_has_its_text() -> None:
    kinds = {type(timer) for timer in (*OF_THE_COORDINATOR.values(), *OF_AN_AGENT.values())}
    assert len(kinds) == len(CoordinatorTimer.__args__) + len(AgentTimer.__args__)


@pytest.mark.parametrize("of", [WholeMachine(), OneGpu(index=0), OneGuest(run_id=RUN)])
def test_a_notice_has_three_timers(of: WholeMachine | OneGpu | OneGuest) -> None:
    timers = of_notice(of)
    assert [text_of(timer).partition(":")[0] for timer in timers] == ["deadline", "term", "own_save"]
    assert [agent_timer(text_of(timer)) for timer in timers] == list(timers)


@pytest.mark.parametrize(
    "text",
    ["", "tea", "tea:job-e1", "checkpoint", "checkpoint:", "lesson:alpha", "lesson:", "lease", "save:job-e1"],
)
def test_a_text_that_is_no_timer_of_a_coordinator_is_named(text: str) -> None:
    with pytest.raises(UnknownTimer, match=f"no timer of a coordinator is called '{text}'"):
        coordinator_timer(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "tea", "save", "save:", "lease:job-e1", "lesson", "checkpoint:job-e1", "term:disk:1"),
        *("deadline:", "deadline:gpu:", "deadline:gpu:one", "deadline:gpu:01", "deadline:guest:"),
        "deadline:machine",
    ],
)
def test_a_text_that_is_no_timer_of_an_agent_is_named(text: str) -> None:
    with pytest.raises(UnknownTimer, match=f"no timer of an agent is called '{text}'"):
        agent_timer(text)
