"""A contender on a small campus is measured; results become claims, tables, pictures and a page."""

from __future__ import annotations

import xml.dom.minidom
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.lab.calm.world import CalmWorld, Storm
from gpunion.lab.evaluation.contenders import MAIN, OURS, REDUNDANT, SLURM_YOUNG
from gpunion.lab.evaluation.page import html, markdown, pictures
from gpunion.lab.evaluation.statistics import Estimate, change, estimate
from gpunion.lab.evaluation.summary import as_json, claims
from gpunion.lab.evaluation.sweep import QUICK, Result, Sources, run_contender
from gpunion.policy.policies import BASELINE
from gpunion.sim.run import run_scenario
from gpunion.sim.scenario.values import TroublePlan
from tests.unit.lab.test_reference import a_campus

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover


def results() -> list[Result]:
    """Two are simulated; the page does not ask whose figures the others have."""
    small = a_campus(load=0.4)
    ours, slurm = run_contender(OURS, small), run_contender(SLURM_YOUNG, small)
    measured = [(contender, ours if contender is OURS else slurm) for contender in MAIN]
    return [
        Result(
            part="main",
            contender=contender.name,
            seed=seed,
            unannounced_share=0.3,
            notices_s=(60.0,),
            departures=10,
            figures=figures,
        )
        for contender, figures in measured
        for seed in (1, 2)
    ]


def test_every_policy_does_the_same_work_and_ours_loses_no_more_than_requeue():
    small = a_campus(load=1.0)
    ours, slurm = run_contender(OURS, small), run_contender(SLURM_YOUNG, small)
    assert ours["jobs_done"] == slurm["jobs_done"] > 0
    assert ours["interruptions"] > 0
    assert ours["work_lost_gpu_s"] <= slurm["work_lost_gpu_s"]
    assert slurm["in_time"] == 0


def test_redundancy_redoes_nothing_and_pays_for_it_all_the_time():
    figures = run_contender(REDUNDANT, a_campus(load=0.4))
    assert figures["redone_gpu_s"] == 0.0
    assert figures["work_lost_gpu_s"] == pytest.approx(REDUNDANT.redundant_share * figures["useful_gpu_s"])


def test_a_calm_world_decides_as_one_that_sends_every_heartbeat():
    scenario = replace(a_campus(load=0.2).scenario, horizon_s=11 * 3600.0)
    # Ten times the usual beat, or the full world would take a minute of the tests' time.
    scenario = replace(scenario, timing=replace(scenario.timing, heartbeat_s=20.0, lease_s=100.0))
    world = CalmWorld(scenario, BASELINE)
    world.run()
    station = world.coordinator.station
    assert station is not None
    state = station.engine.state
    every = run_scenario(scenario)
    assert every.ok
    assert {job.id: job.phase.value for job in state.jobs.values()} == {
        job_id: job.phase for job_id, job in every.jobs.items()
    }
    moved = sum(m.phase.value == "done" for m in state.migrations.values())
    assert moved == every.totals.moves


def test_weather_needs_every_frame():
    stormy = replace(a_campus().scenario, troubles=TroublePlan(loss=0.1))
    with pytest.raises(Storm, match="only owners and power cuts"):
        CalmWorld(stormy, BASELINE)


def test_intervals_are_wide_for_few_seeds_and_absent_for_one():
    assert estimate([5.0]) == Estimate(5.0, None)
    assert estimate([1.0, 3.0]).half == pytest.approx(12.706)
    assert change([1.0, 2.0], [2.0, 4.0]) == Estimate(-0.5, 0.0)


def test_the_page_says_what_was_not_reached_and_its_pictures_are_well_formed():
    found = results()
    sources = Sources(owners=Path("owners.csv"), jobs=Path("jobs.csv"))
    shown = as_json(QUICK, sources, found, 1.0)
    assert shown["departures"] == 20
    assert {claim["reached"] for claim in shown["claims"]} <= {True, False}
    page, text = html(found, QUICK), markdown(found, QUICK)
    assert ("NO" in text) == (not all(claim.reached for claim in claims(found)))
    assert page.count("<svg") == len(pictures(found))
    for svg in pictures(found).values():
        xml.dom.minidom.parseString(svg)
