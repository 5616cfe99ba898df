"""What is told of a time: as much as one answer has, of one moment, and nobody's for another's many."""

from __future__ import annotations

from gpunion.coordinator.usage.answers import gpus_answer, readable, requests_answer, usage_answer
from gpunion.coordinator.usage.book import PastPoints, Remembered
from gpunion.coordinator.usage.report import Asked
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import NodePhase
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.usage_history import HOUR_S, GpuPoint, PhaseSince, PointsTold
from gpunion.wire.v1 import usage as wire
from tests.builders.headquarters import Headquarters
from tests.builders.values import a_spec, facts

DAY_S = 86_400.0
NOBODY = CampusState()


def a_point(hour: int, node: str = "alpha") -> GpuPoint:
    return GpuPoint(
        at_s=hour * HOUR_S,
        node=node,
        index=0,
        uuid=node,
        model="A100",
        seen_s=60.0,
        utilisation=0.5,
        memory_share=None,
        temperature_c=None,
        power_w=None,
    )


def test_points_say_when_theirs_began_and_what_is_left_out_is_said() -> None:
    told = PointsTold(
        points=[a_point(30), a_point(31, "beta"), a_point(47)], since_s=30.5 * HOUR_S, left_out=True
    )
    answer = gpus_answer(PastPoints(point_s=HOUR_S, told=told))
    assert (answer.since, answer.point_s, answer.left_out) == ("1970-01-02T06:30:00.000Z", 3600, True)
    alpha, beta = answer.gpus
    assert [point.at for point in alpha.points] == ["1970-01-02T06:00:00.000Z", "1970-01-02T23:00:00.000Z"]
    assert [point.at for point in beta.points] == ["1970-01-02T07:00:00.000Z"]


def test_a_machine_that_comes_and_goes_leaves_room_for_those_that_stay() -> None:
    restless = [
        PhaseSince(at_s=float(number), node=f"restless-{number % 3}", phase="paused")
        for number in range(2 * wire.PHASES_MOST)
    ]
    quiet = [PhaseSince(at_s=0.0, node=f"quiet-{number}", phase="sharing") for number in range(50)]
    answer = requests_answer(NOBODY, Asked(since_s=0.0, until_s=DAY_S), [*quiet, *restless])
    shown = {one.node: one.phases for one in answer.machines}
    assert len(shown) == 53
    assert sum(map(len, shown.values())) <= wire.PHASES_MOST
    assert len(shown["restless-0"]) == (wire.PHASES_MOST - 50) // 3
    assert shown["restless-0"][-1].at_s == 2 * wire.PHASES_MOST - 1


def test_a_phase_that_there_is_not_is_nobodys() -> None:
    phases = [PhaseSince(at_s=0.0, node="alpha", phase=phase) for phase in ("damaged", NodePhase.SHARING)]
    [machine] = requests_answer(NOBODY, Asked(since_s=0.0, until_s=DAY_S), phases).machines
    assert [one.phase for one in machine.phases] == ["sharing"]


def test_what_is_told_is_of_one_moment_whatever_happens_meanwhile() -> None:
    here = Headquarters(now_s=1000.0)
    here.joins("alpha", facts(gpus=2, lab="vision"))
    here.submits("job", a_spec(lab="students"))
    here.started()
    here.now_s += 600.0
    asked = Asked(since_s=0.0, until_s=here.now_s)
    then = readable(here.state)
    before = usage_answer(then, asked, Remembered()), requests_answer(then, asked, ())
    here.ended("job-e1", EndReason.FINISHED, exit_code=0)
    here.submits("job-2", a_spec())
    here.joins("beta", facts(lab="robots"))
    assert (usage_answer(then, asked, Remembered()), requests_answer(then, asked, ())) == before
    assert usage_answer(here.state, asked, Remembered()) != before[0]
