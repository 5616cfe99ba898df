"""Scenario files are read strictly, and owners come when they should."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import Priority
from gpunion.sim.machine.owners import calendar_acts, random_acts
from gpunion.sim.scenario.file import parse_scenario, read_scenario
from gpunion.sim.scenario.generate import random_scenario
from gpunion.sim.scenario.owner_file import read_acts
from gpunion.sim.scenario.toml_tables import ScenarioError
from gpunion.sim.scenario.values import Hours, OwnerPlan, Parks, RandomOwner

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
SMALLEST = """
horizon_s = 100.0
[[node]]
id = "alpha"
[[job]]
id = "job"
steps = 10
"""


def parse(text: str, folder: Path = Path(), seed: int | None = None):
    return parse_scenario(text, name="test", folder=folder, seed=seed)


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_scenario_of_the_repository_can_be_read(file: Path) -> None:
    scenario = read_scenario(file)
    assert scenario.name == file.stem
    assert scenario == read_scenario(file)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (SMALLEST.replace("steps", "stepz"), "you wrote 'stepz', did you mean 'steps'"),
        (SMALLEST.replace("horizon_s", "until"), "'horizon_s' is missing"),
        (SMALLEST + "vramm_gib = 1", "unknown key 'vramm_gib'; did you mean 'vram_gib'"),
        (SMALLEST + "[troubles]\nlos = 0.1", "unknown key 'los'; did you mean 'loss'"),
        (SMALLEST + "[timing]\nheartbeats = 1", "did you mean 'heartbeat_s'"),
        (SMALLEST + '[[owner]]\nnode = "alpa"', "'alpa' is not known; did you mean 'alpha'"),
        (
            SMALLEST + '[[owner]]\nnode = "alpha"\nacts = [{at_s = 1, do = "reclame"}]',
            "did you mean 'reclaim'",
        ),
        (SMALLEST + '[[trouble]]\nat_s = 1\nkind = "node_crsh"', "did you mean 'node_crash'"),
        (SMALLEST.replace("steps = 10", 'steps = "ten"'), "expected a number, found 'ten'"),
        (SMALLEST.replace("steps = 10", "steps = [9, 1]"), "expected a number or [least, most]"),
        (SMALLEST + '[[node]]\nid = "alpha"', "the node id 'alpha' is used twice"),
        ("horizon_s = 1", "at least one [[node]] and one [[job]]"),
        ("horizon_s = ", "not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    assert complaint in str(caught.value)


def test_a_file_that_is_not_there_is_said_too(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot read"):
        read_scenario(tmp_path / "none.toml")


def test_groups_are_numbered_and_ranges_drawn_from_the_seed() -> None:
    text = SMALLEST.replace('id = "job"', 'id = "job-"\ncount = 3').replace("= 10\n", "= [10, 1000]\n")
    one, again, other = parse(text, seed=1), parse(text, seed=1), parse(text, seed=2)
    assert [job.id for job in one.jobs] == ["job-001", "job-002", "job-003"]
    assert one == again
    assert len({job.program.steps for job in (*one.jobs, *other.jobs)}) == 6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("acts.csv", "at_s,do,notice_s\n10,reclaim,30\n60,resume,\n"),
        ("acts.toml", 'acts = [{at_s = 10, do = "reclaim", notice_s = 30}, {at_s = 60, do = "resume"}]'),
    ],
)
def test_owners_are_read_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    acts = read_acts(tmp_path / name)
    assert [(act.at_s, act.do, act.notice_s) for act in acts] == [
        (10.0, "reclaim", 30.0),
        (60.0, "resume", None),
    ]
    scenario = parse(SMALLEST + f'[[owner]]\nnode = "*"\nfile = "{name}"', folder=tmp_path)
    assert scenario.owners[0].acts == tuple(acts)


def test_office_hours_begin_with_a_notice_and_end_with_sharing() -> None:
    plan = OwnerPlan(
        node_id=NodeId("alpha"),
        hours=(Hours(days=(0, 2), from_s=9 * 3600.0, to_s=17 * 3600.0),),
        hours_notice_s=60.0,
    )
    acts = calendar_acts(plan, 3 * 86400.0)
    assert [(act.at_s, act.do) for act in acts] == [
        (9 * 3600.0 - 60.0, "reclaim"),
        (17 * 3600.0, "resume"),
        (2 * 86400.0 + 9 * 3600.0 - 60.0, "reclaim"),
        (2 * 86400.0 + 17 * 3600.0, "resume"),
    ]


def test_random_owners_always_bring_the_machine_back() -> None:
    acts = random_acts(RandomOwner(mean_shared_s=50.0, mean_away_s=20.0), random.Random(1), 5000.0)
    assert acts[-1].do == "resume"
    assert {act.do for act in acts} == {"reclaim", "kill", "pause", "resume"}


def test_a_random_campus_is_the_same_for_the_same_seed() -> None:
    assert random_scenario(4) == random_scenario(4)
    assert random_scenario(4) != random_scenario(5)


def test_urgent_jobs_are_drawn_apart_from_all_else() -> None:
    for seed in range(12):
        calm, busy = (
            random_scenario(seed, urgent=urgent, liars=False, windows=False) for urgent in (False, True)
        )
        others = busy.jobs[: len(calm.jobs)]
        for job, before in zip(others, calm.jobs, strict=True):
            program = replace(job.program, parks=Parks.WELL, answers_saves=before.program.answers_saves)
            assert replace(job, spec=replace(job.spec, preemptible=False), program=program) == before
        assert all(job.spec.priority is Priority.HIGH for job in busy.jobs[len(calm.jobs) :])
        apart = replace(busy, jobs=calm.jobs, timing=calm.timing)
        assert apart == calm or len(apart.nodes) <= 3  # or one of the crowded
