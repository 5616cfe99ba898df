"""Making room, whoever is there: only lower classes go, no more than needed, and it comes to rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.job import JobPhase, Priority
from gpunion.domain.jobs.migration import Way
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.reasons.reason import Why
from gpunion.policy.policies import LIVE
from gpunion.policy.preemption import PREEMPTION, SETTLED_LEAST_S, WAITED_LEAST_S, Candidate, Crowd, Leaving
from tests.builders import Headquarters, a_spec, facts
from tests.searching import FEW, QUICK

SECONDS = st.floats(min_value=0.0, max_value=5000.0)
GPUS = st.integers(1, 4)
ways = st.lists(
    st.builds(
        Leaving,
        way=st.sampled_from(Way),
        free_s=SECONDS,
        back_s=SECONDS,
        sent_s=SECONDS,
        proven=st.booleans(),
    ),
    max_size=3,
    unique_by=lambda one: one.way,
).map(tuple)
candidates = st.lists(
    st.tuples(
        st.builds(
            Candidate,
            run_id=st.just(RunId("")),
            priority=st.integers(0, 2),
            weight=st.floats(min_value=1.0, max_value=12.0),
            ways=ways,
            unsaved_s=SECONDS,
            remaining_s=st.none() | SECONDS,
            settled_s=st.none() | SECONDS,
            started_s=SECONDS,
        ),
        GPUS,
    ),
    max_size=5,
)


@QUICK
@given(
    there=candidates,
    needs=st.integers(1, 8),
    parked_most=st.integers(0, 5),
    priority=st.integers(0, 2),
    weight=st.floats(1, 12),
    waited_s=SECONDS,
    word=st.sampled_from(sorted(PREEMPTION)),
)
def test_only_lower_classes_go_no_more_than_needed_and_only_where_it_pays_or_at_once(
    there: list[tuple[Candidate, int]],
    needs: int,
    parked_most: int,
    priority: int,
    weight: float,
    waited_s: float,
    word: str,
) -> None:
    held = {RunId(f"run-{number}"): gpus for number, (_, gpus) in enumerate(there)}
    named = [replace(one, run_id=run_id) for (one, _), run_id in zip(there, held, strict=True)]

    def fits_without(gone: frozenset[RunId], parked: frozenset[RunId]) -> bool:
        there = sum(held[run_id] for run_id in (*gone, *parked)) >= needs
        return there and len(parked) <= parked_most

    crowd = Crowd(node_id=NodeId("alpha"), candidates=named, fits_without=fits_without)
    policy = PREEMPTION[word]
    room = policy.room([crowd], priority=priority, weight=weight, waited_s=waited_s)
    if room is None:
        moved = (one.without_parking() for one in named)
        able = {v.run_id for v in moved if v.priority < priority and not v.left_alone}
        assert not policy.at_once(priority) or not fits_without(frozenset(able), frozenset())
        return
    gone = [victim.run_id for victim in room.victims if not victim.parks]
    parked = [victim.run_id for victim in room.victims if victim.parks]
    assert fits_without(frozenset(gone), frozenset(parked))
    assert all(victim.leaving in victim.ways for victim in room.victims)
    assert all(victim.priority < priority and not victim.left_alone for victim in room.victims)
    assert policy.at_once(priority) or (room.cost < weight * waited_s and waited_s >= WAITED_LEAST_S)
    assert word != "off"
    assert not policy.at_once(priority) or word == "at-once"
    for fewer in combinations(room.victims, len(room.victims) - 1):
        here = frozenset(one.run_id for one in fewer if one.parks)
        assert not fewer or not fits_without(frozenset(one.run_id for one in fewer) - here, here)


LEAVING = {
    Way.PARK: Leaving(way=Way.PARK, free_s=2.0, back_s=1.0),
    Way.DUMP: Leaving(way=Way.DUMP, free_s=6.0, back_s=5.0, proven=True),
    Way.SAVE: Leaving(way=Way.SAVE, free_s=9.0, back_s=5.0, proven=True),
}


def leaves(*ways: Way, unsaved_s: float = 5.0, remaining_s: float | None = None) -> Candidate:
    return Candidate(
        run_id=RunId("run"),
        priority=0,
        weight=1.0,
        ways=tuple(LEAVING[way] for way in ways),
        unsaved_s=unsaved_s,
        remaining_s=remaining_s,
        settled_s=None,
        started_s=0.0,
    )


def test_the_cheapest_way_is_taken_but_a_program_saves_first_where_that_is_shorter_than_its_work() -> None:
    taken = [leaves(Way.SAVE, Way.DUMP, Way.PARK).leaving, leaves(Way.SAVE, Way.DUMP).leaving]
    assert [one and one.way for one in taken] == [Way.PARK, Way.DUMP]
    saves = leaves(Way.SAVE, Way.DUMP, Way.PARK, unsaved_s=10.0).leaving
    assert saves is not None
    assert saves.way is Way.SAVE
    assert leaves(Way.DUMP, Way.PARK, unsaved_s=1e6).leaving == LEAVING[Way.PARK]


def test_whoever_cannot_leave_is_left_alone_and_so_is_one_whose_rest_is_shorter_than_the_cost() -> None:
    assert leaves().left_alone
    assert leaves(Way.PARK, remaining_s=2.5).left_alone
    assert not leaves(Way.PARK, remaining_s=3.5).left_alone


@settings(FEW, max_examples=15)
@given(
    jobs=st.lists(st.tuples(st.sampled_from(Priority), st.integers(1, 2)), min_size=1, max_size=6),
    nodes=st.integers(1, 2),
)
def test_without_new_arrivals_it_comes_to_rest_and_no_class_waits_for_a_lower_one(
    jobs: list[tuple[Priority, int]], nodes: int
) -> None:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    for number in range(nodes):
        headquarters.joins(f"node-{number}", facts(gpus=2, lab=""))
    for number, (priority, gpus) in enumerate(jobs):
        headquarters.later(1.0).submits(f"job-{number}", a_spec(gpus=gpus, priority=priority))
        _go_on(headquarters)
    for _ in range(2 * len(jobs)):
        _look_again(headquarters)
    asked = [one for one in headquarters.told if one[1].why is Why.MADE_ROOM]
    _look_again(headquarters)
    _look_again(headquarters)
    assert [one for one in headquarters.told if one[1].why is Why.MADE_ROOM] == asked
    waiting = [job.spec.priority for job in headquarters.state.jobs.values() if job.phase.waiting]
    small = all(gpus == 1 for _, gpus in jobs)
    if waiting and small:
        living = [run for run in headquarters.state.runs.values() if run.living]
        assert max(waiting) <= min(headquarters.state.jobs[run.job_id].spec.priority for run in living)


def _look_again(headquarters: Headquarters) -> None:
    headquarters.later(SETTLED_LEAST_S + 1.0)
    if headquarters.timer_at("replan") is not None:
        headquarters.fires("replan")
    _go_on(headquarters)


def _go_on(headquarters: Headquarters) -> None:
    """What agents do: whoever was ordered starts, whoever is asked to go saves and goes."""
    for _ in range(3):
        for run in list(headquarters.state.runs.values()):
            if run.phase is RunPhase.ORDERED:
                headquarters.started(run.id, step=headquarters.engine.state.jobs[run.job_id].epoch)
            elif headquarters.state.jobs[run.job_id].phase is JobPhase.LEAVING and run.living:
                checkpoint = f"{run.id}-c{run.checkpoints}"
                step = 10 * run.epoch
                headquarters.captured(checkpoint, step=step)
                headquarters.ended(run.id, EndReason.SAVED, step=step)
                headquarters.durable(checkpoint, step=step, final=True)
