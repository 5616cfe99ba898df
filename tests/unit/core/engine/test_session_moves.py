"""Sessions that are moved whole where that can be, and by their variables where it cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.session import Session, SessionKind, SessionStart
from gpunion.domain.jobs.session_level import Level, Means, Reach, reach_of
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.effects import AskToSave
from gpunion.domain.protocol.events import GuestStarted
from gpunion.domain.protocol.frames import SessionNote
from gpunion.domain.protocol.orders import StartRun, TakeCheckpoint
from gpunion.domain.protocol.reports import CheckpointCaptured, NoticeGiven
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import SystemAbility, Tier
from gpunion.engine.coordinator.runs.session_levels import level_of
from tests.builders import Headquarters, LoneAgent, a_save_order, a_spec, a_start, deeds, facts, orders, whys

OLD, NEW, ARM = "x86_64/criu-4.1", "x86_64/criu-4.2", "aarch64/criu-4.2"
C1 = CheckpointId("job-e1-c1")
COURSE = SessionStart(kind=SessionKind.NOTEBOOK, name="course", token="c0ffee")


def able(kind: str = NEW) -> NodeFacts:
    return replace(facts(), system=SystemAbility(able=True, why_not="", kind=kind))


def a_campus(alpha: NodeFacts, **others: NodeFacts) -> Headquarters:
    """A session runs on alpha."""
    campus = Headquarters()
    campus.joins("alpha", alpha)
    session = Session(kind=SessionKind.NOTEBOOK)
    campus.submits("job", replace(a_spec(), name="course", session=session))
    campus.later(1.0).started("job-e1")
    for name, told in others.items():
        campus.joins(name, told)
    return campus


def its_owner_came(campus: Headquarters) -> TakeCheckpoint:
    decision = campus.reported("alpha", NoticeGiven(deadline_s=campus.now_s + 60))
    (asked,) = (order for _, order in orders(decision) if isinstance(order, TakeCheckpoint))
    return asked


def dumped_and_moved(campus: Headquarters) -> StartRun:
    its_owner_came(campus)
    run: Any = {"run_id": RunId("job-e1"), "job_id": campus.job().id, "epoch": 1}
    campus.reported(
        "alpha",
        CheckpointCaptured(**run, checkpoint_id=C1, step=7, progress=0.0, stall_s=1.0, tier=Tier.SYSTEM),
    )
    campus.ended("job-e1", EndReason.SAVED)
    decision = campus.durable(C1, step=7, final=True)
    (start,) = (order for _, order in orders(decision) if isinstance(order, StartRun))
    return start


@pytest.mark.parametrize(
    ("means", "reach"),
    [
        (Means(dumped=True, saves_variables=True), Reach(level=Level.WHOLE)),
        (Means(dumped=True, why_not_whole="TCP", saves_variables=True), (Level.VARIABLES, "TCP")),
        (Means(dumped=False, saves_variables=True), (Level.VARIABLES, "machine")),
        (Means(dumped=False), (Level.FILES, "cloudpickle")),
        (Means(dumped=False, starting=True), (Level.FILES, "it is starting")),
    ],
)
def test_the_best_level_that_can_be_had_is_told_with_why_no_better(means: Means, reach: Any) -> None:
    found = reach_of(means)
    if isinstance(reach, Reach):
        assert found == reach
    else:
        assert found.level is reach[0]
        assert reach[1] in found.why_not


@pytest.mark.parametrize(
    ("others", "whole"), [({"beta": able()}, True), ({"beta": facts()}, False), ({"beta": able(ARM)}, False)]
)
def test_a_session_is_to_be_dumped_where_another_machine_could_bring_it_back(
    others: dict[str, NodeFacts], whole: bool
) -> None:
    campus = a_campus(able(), **others)
    note = SessionNote(run_id=RunId("job-e1"), level="variables")
    assert level_of(campus.state, campus.job(), campus.run(), note).level is (
        Level.WHOLE if whole else Level.VARIABLES
    )
    assert its_owner_came(campus).whole is whole


def test_a_dump_goes_where_it_comes_to_life() -> None:
    campus = a_campus(able(OLD), beta=able(NEW))
    start = dumped_and_moved(campus)
    assert (start.whole, start.restore, start.tier) == (True, C1, Tier.APP)


@pytest.mark.parametrize("there", [facts(), able(ARM)])
def test_a_session_goes_on_where_its_dump_is_of_no_use(there: NodeFacts) -> None:
    """From its variables, which are in the same checkpoint: other jobs wait for a machine of the kind."""
    campus = a_campus(able(), beta=able(), gamma=there)
    campus.reported("beta", NoticeGiven(deadline_s=campus.now_s + 60))
    start = dumped_and_moved(campus)
    assert campus.run("job-e2").node_id == "gamma"
    assert (start.whole, start.restore) == (False, C1)


def test_a_dump_that_was_refused_is_read_for_its_variables_the_next_time() -> None:
    campus = a_campus(able(), beta=able(), gamma=able())
    dumped_and_moved(campus)
    decision = campus.ended("job-e2", EndReason.REFUSED, why=Why.DUMP_REFUSED_THERE, detail="CRIU: mode")
    assert Why.DUMP_GIVEN_UP in whys(decision, "job")
    durable = campus.job().durable
    assert durable is not None
    assert (durable.checkpoint_id, durable.tier, campus.job().dump) == (C1, Tier.APP, None)
    starts = [order for _, order in orders(decision) if isinstance(order, StartRun)]
    assert [(start.restore, start.whole) for start in starts] == [(C1, False)]


@pytest.mark.parametrize(
    ("session", "final", "whole"), [(COURSE, True, True), (COURSE, False, False), (None, True, False)]
)
def test_an_agent_dumps_a_session_for_its_last_save_only(
    session: SessionStart | None, final: bool, whole: bool
) -> None:
    agent = LoneAgent()
    agent.ordered(replace(a_start("job-e1"), whole=True, session=session))
    agent.hears(GuestStarted(run_id=RunId("job-e1"), restored=None, resumed_step=0, restore_s=0.1))
    asked = [
        deed
        for deed in deeds(agent.ordered(replace(a_save_order(final=final), whole=True)))
        if isinstance(deed, AskToSave)
    ]
    assert [deed.whole for deed in asked] == [whole]
