"""Making room, whoever is there: only lower classes go, no more than needed, and it comes to rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.job import JobPhase, Priority
from gpunion.domain.reasons import Why
from gpunion.domain.run import EndReason, RunPhase
from gpunion.policy.policies import LIVE
from gpunion.policy.preemption import SETTLED_LEAST_S, ByLastCheckpoint, Candidate, Crowd
from tests.builders import Headquarters, a_spec, facts
from tests.searching import FEW, QUICK

SECONDS = st.floats(min_value=0.0, max_value=5000.0)
GPUS = st.integers(1, 4)
candidates = st.lists(
    st.tuples(
        st.builds(
            Candidate,
            run_id=st.just(RunId("")),
            priority=st.integers(0, 2),
            weight=st.floats(min_value=1.0, max_value=12.0),
            save_s=SECONDS,
            restore_s=SECONDS,
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
    priority=st.integers(0, 2),
    weight=st.floats(1, 12),
    waited_s=SECONDS,
)
def test_only_lower_classes_go_no_more_than_needed_and_only_where_it_pays(
    there: list[tuple[Candidate, int]], needs: int, priority: int, weight: float, waited_s: float
) -> None:
    held = {RunId(f"run-{number}"): gpus for number, (_, gpus) in enumerate(there)}
    named = [replace(one, run_id=run_id) for (one, _), run_id in zip(there, held, strict=True)]

    def fits_without(gone: frozenset[RunId]) -> bool:
        return sum(held[run_id] for run_id in gone) >= needs

    crowd = Crowd(node_id=NodeId("alpha"), candidates=named, fits_without=fits_without)
    room = ByLastCheckpoint().room([crowd], priority=priority, weight=weight, waited_s=waited_s)
    if room is None:
        return
    gone = [victim.run_id for victim in room.victims]
    assert fits_without(frozenset(gone))
    assert all(victim.priority < priority and not victim.left_alone for victim in room.victims)
    assert room.cost < weight * waited_s
    for fewer in combinations(gone, len(gone) - 1):
        assert not fewer or not fits_without(frozenset(fewer))


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
    if headquarters.timers.at("replan") is not None:
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
