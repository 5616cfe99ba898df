"""What an operator may choose: each bundle's one answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import Job, JobPhase, Priority
from gpunion.policy.fairness import Shares
from gpunion.policy.ordering import Ahead, EarliestDeadline, Queue, why_ahead
from gpunion.policy.placement.pick import Placed, TightThenFast, place
from gpunion.policy.policies import BUNDLES, FOR_OPERATORS, LIVE
from tests.builders import a_job, a_node, a_spec, a_view, facts

HOUR_S = 3600.0


def due(name: str, within_h: float | None, priority: Priority = Priority.NORMAL, **changes: Any) -> Job:
    within_s = None if within_h is None else within_h * HOUR_S
    spec = replace(a_spec(priority=priority), finish_within_s=within_s, expected_s=HOUR_S)
    return a_job(name, spec=spec, **changes)


def in_turn(*jobs: Job) -> list[str]:
    ordering = EarliestDeadline()
    return [
        str(job.id) for job in Queue(sorted(jobs, key=ordering.key), ordering, Shares(accounts={}, now_s=0.0))
    ]


def test_who_has_to_begin_soonest_goes_first_and_who_named_no_deadline_last() -> None:
    jobs = (
        due("whenever", None),
        due("later", 9.0),
        due("soon", 2.0),
        due("earlier", None, submitted_s=-9.0),
    )
    assert in_turn(*jobs) == ["soon", "later", "earlier", "whenever"]


def test_classes_and_the_interrupted_come_before_deadlines() -> None:
    jobs = (
        due("soon", 2.0),
        due("interrupted", None, phase=JobPhase.MIGRATING),
        due("high", None, priority=Priority.HIGH),
    )
    assert in_turn(*jobs) == ["high", "interrupted", "soon"]


def test_somebody_who_waits_is_told_that_others_have_to_be_done_earlier() -> None:
    told = why_ahead(due("soon", 2.0), due("later", 9.0), EarliestDeadline(), Shares(accounts={}, now_s=0.0))
    assert told is Ahead.EARLIER_DEADLINE


def test_packing_fills_what_is_broken_into_before_a_faster_machine() -> None:
    small = a_view(a_node("small", of=facts(gpus=1, speed=1.0)))
    large = a_view(a_node("large", of=facts(gpus=4, speed=2.0)))
    placed = place(a_job(gpus=1), [small, large], 0.0, TightThenFast())
    assert isinstance(placed, Placed)
    assert placed.node_id == NodeId("small")
    assert "the fullest of those with room" in placed.because


def test_bundles_for_operators_differ_from_the_usual_one_in_one_answer() -> None:
    for bundle in FOR_OPERATORS:
        assert BUNDLES[bundle.name] is bundle
        answers = ("ordering", "scoring", "reclaim", "homecoming", "preemption", "learning")
        different = [name for name in answers if type(getattr(bundle, name)) is not type(getattr(LIVE, name))]
        assert len(different) <= 1
