"""Many jobs wait that need several GPUs at once: looking for places for them takes no longer for that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpunion.domain.jobs.job import JobSpec
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.timers import ReplanDue
from gpunion.domain.reasons.reason import Why
from tests.builders.turns import Turns, of
from tests.builders.values import facts

MACHINES, WIDE = 10, 40


class Counted(dict[Any, NodeView]):
    """What is known of machines, and how often it was asked for."""

    asked = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)


def a_campus(*, rigid: bool) -> Turns:
    """Each machine has two GPUs, and on them one tenant that takes turns and one that may not."""
    campus = Turns()
    for number in range(MACHINES):
        campus.joins(f"n{number}", facts(gpus=2))
    for number in range(2 * MACHINES):
        campus.runs(f"t{number:02}", of("bob", in_windows=not rigid or number % 2 == 0))
    return campus.later(5.0)


def test_machines_are_asked_once_for_all_who_could_not_have_them() -> None:
    campus = a_campus(rigid=True)
    for number in range(WIDE):
        campus.submits(f"w{number:02}", of(f"u{number:02}", gpus=2, in_windows=False))
    counted = campus.state.views = Counted(campus.state.views)
    campus.later(15.0).hears(TimerFired(timer=ReplanDue()))
    assert campus.promised() == {}
    assert counted.asked < MACHINES * WIDE / 2


def test_wide_jobs_that_no_machine_could_have_keep_no_place_from_those_behind_them() -> None:
    campus = a_campus(rigid=False)
    for number in range(WIDE):
        campus.submits(f"w{number:02}", of(f"u{number:02}", gpus=2, vram_gib=80, in_windows=False))
    campus.later(5.0).submits("wide", of("sam", gpus=2, in_windows=False))
    assert campus.promised().keys() == {"wide"}


def wide_with_network(user: str) -> JobSpec:
    """No machine here lets it come, and none is too small for it."""
    spec = of(user, gpus=2, in_windows=False)
    return replace(spec, request=replace(spec.request, network=True))


def test_the_same_request_is_refused_once_for_all_who_make_it() -> None:
    campus = a_campus(rigid=False)
    for number in range(WIDE):
        campus.submits(f"w{number:02}", wide_with_network("eve"))
    campus.later(5.0).submits("wide", of("sam", gpus=2, in_windows=False))
    assert campus.promised().keys() == {"wide"}


def test_of_many_whom_owners_refuse_a_few_are_looked_at_and_who_comes_behind_them_has_its_turn() -> None:
    campus = a_campus(rigid=False)
    for number in range(WIDE):
        campus.submits(f"w{number:02}", wide_with_network(f"u{number:02}"))
    campus.later(5.0).submits("wide", of("sam", gpus=2, in_windows=False))
    counted = campus.state.views = Counted(campus.state.views)
    campus.later(15.0).hears(TimerFired(timer=ReplanDue()))
    assert counted.asked < MACHINES * WIDE / 2
    for _ in range(WIDE):
        campus.later(15.0).hears(TimerFired(timer=ReplanDue()))
    assert Why.PLACE_PROMISED in {reason.why for _, reason in campus.told if reason.subject == "wide"}
