"""Whole scenarios: the small one is told line by line, the storm leaves nothing broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.transcript import transcript
from gpunion.sim.fault_points import KINDS, CrashPoint, Moment
from gpunion.sim.fuzz import SeedOutcome, fuzz, run_seed, summary
from gpunion.sim.observer import Watch
from gpunion.sim.run import main, run_scenario, table
from gpunion.sim.scenario.file import read_scenario
from gpunion.sim.scenario.values import DUMPS, Scenario
from gpunion.sim.world import World

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


class Recorder(Watch):
    def __init__(self) -> None:
        self.coordinator: list[Commit] = []
        self.agents: dict[NodeId, list[AgentCommit]] = {}

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        self.coordinator.append(commit)

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        self.agents.setdefault(node_id, []).append(commit)


def recorded(scenario: Scenario) -> Recorder:
    recorder = Recorder()
    outcome = run_scenario(scenario, prepare=lambda world: world.watch(recorder))
    assert outcome.violations == ()
    return recorder


def test_a_gang_gets_its_turn_in_a_crowd_and_moves_whole() -> None:
    outcome = run_scenario(SCENARIOS / "gang.toml")
    assert outcome.violations == ()
    assert {job.phase for job in outcome.jobs.values()} == {"succeeded"}
    pair = [outcome.jobs["pair"], outcome.jobs["pair-r1"]]
    assert [member.moves for member in pair] == [2, 2]
    # Kept machines: it waits for those who were there first and not for the crowd, which comes for longer.
    assert pair[0].waited_s == pair[1].waited_s < 600.0
    assert max(member.steps_redone for member in pair) < 100


def test_going_when_it_is_safe_loses_no_step_where_a_short_notice_does() -> None:
    waited = run_scenario(SCENARIOS / "when-safe.toml")
    assert waited.violations == ()
    assert {job.phase for job in waited.jobs.values()} == {"succeeded"}
    assert waited.totals.steps_redone == 0
    assert redone_with_notice(600.0) == 0  # as long, it is sent again as often
    assert redone_with_notice(30.0) > 0  # the disk is full for longer than that


def redone_with_notice(notice_s: float) -> int:
    scenario = read_scenario(SCENARIOS / "when-safe.toml")
    owners = tuple(
        replace(
            plan,
            acts=tuple(
                replace(act, do="reclaim", notice_s=notice_s) if act.do == "when_safe" else act
                for act in plan.acts
            ),
        )
        for plan in scenario.owners
    )
    return run_scenario(replace(scenario, owners=owners)).totals.steps_redone


def test_small_scenario_is_reclaimed_moved_lost_recovered_taken_home_and_finished() -> None:
    outcome = run_scenario(SCENARIOS / "small.toml")
    training = outcome.jobs["training"]
    assert outcome.violations == ()
    assert (training.phase, training.runs, training.moves) == ("succeeded", 4, 3)
    told = list(transcript(recorded(read_scenario(SCENARIOS / "small.toml")).coordinator))
    story = [line.rpartition(" | ")[2] for line in told]
    for reason in (
        "started training",
        "owner_wants_node",
        "resumed training, moved training",
        "node_went_silent beta",
        "node_given_up training",
        "going_home training",
        "finished training",
    ):
        assert any(reason in line for line in story), reason


def test_nothing_is_lost_on_notice() -> None:
    """Without the node that dies, no step is made twice."""
    small = read_scenario(SCENARIOS / "small.toml")
    calm = replace(small, troubles=replace(small.troubles, scripted=()))
    outcome = run_scenario(calm)
    assert outcome.ok
    assert outcome.totals.moves == 2
    assert outcome.totals.steps_redone == 0


def test_transcript_does_not_depend_on_speed_or_size() -> None:
    """What differs between a modelled and a real machine must not show in it."""
    small = read_scenario(SCENARIOS / "small.toml")
    slower = replace(
        small,
        jobs=tuple(replace(job, program=replace(job.program, capture_s=0.9)) for job in small.jobs),
        network=replace(small.network, latency_s=0.02, core_bps=2e9),
    )
    one, other = recorded(small), recorded(slower)
    assert list(transcript(one.coordinator)) == list(transcript(other.coordinator))
    for node_id, commits in one.agents.items():
        assert list(transcript(commits)) == list(transcript(other.agents[node_id]))


def test_storm_meets_every_kind_of_trouble_and_breaks_nothing() -> None:
    outcome = run_scenario(SCENARIOS / "storm.toml")
    assert outcome.violations == ()
    # Nobody lies in a storm: the fuzz draws liars apart from all other trouble.
    assert [kind for kind in KINDS if outcome.troubles[kind] == 0] == ["lie"]
    assert outcome.totals.succeeded == outcome.totals.jobs


def test_another_seed_is_another_storm() -> None:
    digests = {run_scenario(SCENARIOS / "storm.toml", seed).digest for seed in (1, 2, 1)}
    assert len(digests) == 2


def test_an_outcome_is_told_to_people_and_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    small = str(SCENARIOS / "small.toml")
    assert main([small]) == 0
    assert "1 of 1 jobs succeeded" in capsys.readouterr().out
    assert main([small, "--json", "--seed", "5"]) == 0
    assert '"violations": []' in capsys.readouterr().out


def test_office_hours_of_the_campus_breaks_nothing() -> None:
    campus = read_scenario(SCENARIOS / "campus.toml")
    day = replace(
        campus,
        horizon_s=50000.0,
        jobs=tuple(job for job in campus.jobs if job.submit_s < 30000.0),
        troubles=replace(campus.troubles, heal_s=None),
    )
    outcome = run_scenario(day)
    assert outcome.violations == ()
    assert outcome.totals.moves > 0
    assert "utilisation" in table(outcome)


def commits_of_small() -> int:
    return len(recorded(read_scenario(SCENARIOS / "small.toml")).coordinator)


class CrashAtCommit(Watch):
    """Sets the coordinator's crash point so that it dies around its n-th commit."""

    def __init__(self, world: World, number: int, moment: Moment) -> None:
        self._world = world
        self._left = number
        self._moment = moment

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        self._left -= 1
        if self._left == 0:
            self._world.coordinator.crash_point = CrashPoint(self._moment)


@pytest.mark.parametrize("moment", Moment)
def test_coordinator_may_die_around_any_commit_of_the_small_scenario(moment: Moment) -> None:
    small = read_scenario(SCENARIOS / "small.toml")
    broken = {}
    # Every third, by turns: real processes meet every one (tests/system).
    for number in range(1 + list(Moment).index(moment), commits_of_small(), 3):

        def prepare(world: World, number: int = number) -> None:
            world.watch(CrashAtCommit(world, number, moment))

        outcome = run_scenario(small, prepare=prepare)
        if not outcome.ok or outcome.jobs["training"].phase != "succeeded":
            broken[number] = [str(violation) for violation in outcome.violations[:1]]
        assert outcome.troubles["coordinator_crash"] <= 1
    assert broken == {}


def test_fuzz_counts_troubles_and_says_how_to_repeat_a_failure() -> None:
    told: list[SeedOutcome] = []
    outcome = fuzz(range(3, 6), told.append)
    assert [seed.seed for seed in told] == [3, 4, 5]
    assert outcome.ok
    assert set(outcome.troubles) == set(KINDS)
    assert "3 seeds" in summary(outcome)
    assert told[0].repeat == "gpunion sim fuzz --from 3 --seeds 1"
    assert run_seed(4).digest == told[1].digest


def test_a_guest_whose_owner_visits_its_gpu_stands_still_and_redoes_nothing() -> None:
    scenario = read_scenario(SCENARIOS / "parked.toml")
    outcome = run_scenario(scenario)
    assert outcome.violations == ()
    assert {job.phase for job in outcome.jobs.values()} == {"succeeded"}
    told = "\n".join(transcript(recorded(scenario).coordinator))
    counts = [told.count(word) for word in ("RunParked", "RunUnparked", "parked_too_long")]
    assert counts == [3, 2, 1]
    # The long visit alone made one of them move.
    assert sorted(job.moves for job in outcome.jobs.values()) == [0, 1]


def test_where_guests_are_dumped_as_they_stand_the_long_visit_costs_no_step() -> None:
    scenario = read_scenario(SCENARIOS / "parked.toml")
    nodes = tuple(replace(node, facts=replace(node.facts, system=DUMPS)) for node in scenario.nodes)
    scenario = replace(scenario, nodes=nodes)
    outcome = run_scenario(scenario)
    assert outcome.violations == ()
    assert {job.phase for job in outcome.jobs.values()} == {"succeeded"}
    told = [
        reason.sentence()
        for commit in recorded(scenario).coordinator
        for reason in commit.decision.reasons
        if reason.why in (Why.PARKED_GOES_ON, Why.PARKED_TOO_LONG, Why.MOVED)
    ]
    assert [sentence.rpartition(", ")[2] for sentence in told[1:]] == ["0 steps to redo"]
    assert "in the memory of alpha it was taken as it stood there" in told[0]
