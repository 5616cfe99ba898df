"""Windows are compared with other ways to share a campus: who, on what, and what the page says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.lab.evaluation.sweep import Sources
from gpunion.lab.reference import campus, work
from gpunion.lab.reference.scenario import Campus, Setting, Traces, reference_campus
from gpunion.lab.windows import page
from gpunion.lab.windows.campuses import Place, with_lengths_off
from gpunion.lab.windows.contenders import ALL, OFF, OURS
from gpunion.lab.windows.lies import LIES, PIECES, handed_in_as, is_liar, told_wrong
from gpunion.lab.windows.plan import DECIDING, MOST_RUNS, Plan, Result, lies, run_contender, tasks
from gpunion.sim.scenario.values import DAY_S, HOUR_S
from tests.unit.lab.test_reference import by_day

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

SOURCES = Sources(owners=Path("owners.csv"), jobs=Path("jobs.csv"))


def crowded() -> Campus:
    """More work than there is time, and every job may run in windows."""
    shapes = tuple(work.Shape(in_week_s=at_h * HOUR_S, seconds=4 * HOUR_S, gpus=1) for at_h in (1, 3))
    setting = Setting(seed=1, horizon_s=DAY_S / 2, kinds=campus.PUBLISHED[:2], load=2.5)
    small = reference_campus(Traces(owners=by_day(8), shapes=shapes), setting)
    jobs = tuple(replace(job, spec=replace(job.spec, atomizable=True)) for job in small.scenario.jobs)
    return replace(small, scenario=replace(small.scenario, jobs=jobs))


def test_with_windows_people_wait_less_and_no_end_is_overrun() -> None:
    here = crowded()
    ours, off = run_contender(OURS, here), run_contender(OFF, here)
    assert ours["wait_s"] < off["wait_s"]
    assert ours["turns"] > 0 == off["turns"]
    assert ours["overruns"] == 0
    assert ours["useful_gpu_h"] > 0.9 * off["useful_gpu_h"]


def test_nobody_passes_the_first_of_a_strict_queue_and_some_pass_with_a_reservation() -> None:
    here = crowded()
    done = {name: run_contender(ALL[name], here)["jobs_done"] for name in ("first-come", "easy", "shortest")}
    assert all(done.values())
    assert done["first-come"] <= done["shortest"]


def test_the_usual_plan_stays_within_what_was_promised_and_names_each_campus_once() -> None:
    todo = tasks(Plan(), SOURCES)
    assert len(todo) <= MOST_RUNS
    assert len({(task.contender, task.place) for task in todo}) == len(todo)
    assert len(tasks(Plan(full=True), SOURCES)) > MOST_RUNS
    assert {task.lie for task in lies(Plan(), SOURCES)} == {"", *LIES}


def test_lies_change_what_is_said_and_not_what_is_so() -> None:
    scenario = crowded().scenario
    for lie in LIES:
        told = told_wrong(scenario, lie)
        honest = [job for job in scenario.jobs if not is_liar(job.spec.owner)]
        assert [job for job in told.jobs if not is_liar(job.spec.owner)] == honest
        work = sum(job.program.steps for job in scenario.jobs)
        assert sum(job.program.steps for job in told.jobs) == pytest.approx(work, rel=0.01)
    small = told_wrong(scenario, "many small").jobs
    liars = [job for job in scenario.jobs if is_liar(job.spec.owner)]
    assert len(small) == len(scenario.jobs) + (PIECES - 1) * len(liars)
    assert {handed_in_as(job.id) for job in small} == {job.id for job in scenario.jobs}


def test_lengths_are_off_by_no_more_than_they_may_be() -> None:
    scenario = crowded().scenario
    off = with_lengths_off(scenario, 4.0)
    ratios = [
        (said.spec.expected_s or 0.0) / (true.spec.expected_s or 1.0)
        for said, true in zip(off.jobs, scenario.jobs, strict=True)
    ]
    assert min(ratios) >= 0.25
    assert max(ratios) <= 4.0
    assert max(ratios) > 2.0
    assert with_lengths_off(scenario, 1.0) is scenario


def some_results() -> list[Result]:
    here = crowded()
    figures = {name: run_contender(ALL[name], here) for name in (OURS.name, OFF.name)}
    found = [
        Result(part="deciding", contender=name, place=replace(DECIDING, seed=seed), figures=figures[name])
        for name in (OURS.name, OFF.name)
        for seed in (1, 2)
    ]
    worse = figures[OURS.name] | {"liars_response_s": 2 * figures[OURS.name]["liars_response_s"]}
    told = {OURS.name: worse, OFF.name: figures[OFF.name]}
    return found + [
        Result(
            part="lies", contender=name, place=replace(DECIDING, seed=1), figures=told[name], lie="shorter"
        )
        for name in told
    ]


def test_the_page_says_what_decides_who_did_what_and_what_lies_gain() -> None:
    results = some_results()
    text = page.markdown(results, Plan(seeds=(1, 2)), 60.0)
    assert "mean wait, of what it is today (decides)" in text
    assert OURS.label in text
    assert "says a quarter of how long it takes | +0.0% | -100.0% | yes" in text
    found = page.as_json(Plan(seeds=(1, 2)), SOURCES, results, 60.0)
    assert [claim["decides"] for claim in found["claims"]].count(True) == 3
    assert found["campuses"] == len(results)


def test_those_who_tell_the_truth_beside_liars_are_no_part_of_what_decides() -> None:
    """There are fewer of them, over fewer days, and of some contenders none."""
    results = some_results()
    ours = next(result for result in results if result.contender == OURS.name)
    shortest = [replace(ours, contender="shortest", place=replace(DECIDING, seed=seed)) for seed in (1, 2)]
    truth = [
        replace(ours, contender=name, part="lies", place=replace(DECIDING, seed=3, horizon_s=60.0))
        for name in (OURS.name, OFF.name)
    ]
    both = [*results, *shortest]
    assert page.claims([*both, *truth]) == page.claims(both)
    assert page.tables([*both, *truth]).keys() == page.tables(both).keys()


def test_a_claim_is_reached_within_its_limit_alone() -> None:
    (wait, useful, overruns, *_) = page.claims(some_results())
    assert wait.reached == (wait.got.mean <= 0.25)
    assert useful.wanted == "at least 0.97"
    assert overruns.reached
    assert Place() == DECIDING
