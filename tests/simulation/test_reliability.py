"""Whose jobs do not do what was said of them is believed less, and more again once they do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from gpunion.domain.jobs.profile import Reliability
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.resources import GIB, Request
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.sim.observer import Watch
from gpunion.sim.run import run_scenario
from gpunion.sim.scenario.values import HOUR_S, JobPlan, MemoryPhase, Scenario
from gpunion.sim.world import Parts
from tests.simulation.small_windows import SHORT_TURNS, a_job, a_node


@dataclass
class Believed(Watch):
    """How far each user was, one number a piece."""

    rho: dict[str, list[float]] = field(default_factory=dict)

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        for record in commit.decision.changes:
            if isinstance(record, Reliability):
                self.rho.setdefault(record.user, []).append(record.rho)


def of(owner: str, job: JobPlan, **said: object) -> JobPlan:
    return replace(job, spec=replace(job.spec, owner=owner, **said))  # type: ignore[arg-type]


def believed(*jobs: JobPlan, gib: int = 24, fails: bool = False) -> Believed:
    seen = Believed()
    node = a_node()
    gpus = tuple(replace(gpu, memory_bytes=gib * GIB) for gpu in node.facts.capacity.gpus)
    facts = replace(node.facts, capacity=replace(node.facts.capacity, gpus=gpus))
    scenario = Scenario(
        name="believed", seed=1, horizon_s=6 * HOUR_S, nodes=(replace(node, facts=facts),), jobs=jobs
    )
    outcome = run_scenario(scenario, parts=Parts(policies=SHORT_TURNS), prepare=lambda w: w.watch(seen))
    assert fails or outcome.violations == ()
    return seen


def test_who_keeps_what_was_promised_is_believed() -> None:
    seen = believed(of("ann", a_job("one")), of("bob", a_job("other", submit_s=10.0)))
    assert len(seen.rho["ann"]) > 1
    assert min(*seen.rho["ann"], *seen.rho["bob"]) > 0.95


def test_who_says_that_a_job_is_a_quarter_as_long_is_believed_less_with_every_piece() -> None:
    truth = of("ann", a_job("true", work_s=1800.0))
    lie = of("bob", a_job("false", work_s=1800.0, submit_s=10.0), expected_s=450.0)
    seen = believed(truth, lie)
    assert min(seen.rho["ann"]) > 0.95
    first = seen.rho["bob"][:5]
    assert first == sorted(first, reverse=True)
    assert seen.rho["bob"][-1] < 0.4


def test_who_tells_the_truth_again_is_believed_again() -> None:
    lie = of("bob", a_job("false", work_s=1200.0), expected_s=300.0)
    truth = of("bob", a_job("true", work_s=2400.0, submit_s=4000.0))
    others = (of("ann", a_job("one", work_s=1200.0)), of("cid", a_job("two", work_s=2400.0, submit_s=4001.0)))
    seen = believed(lie, truth, *others)
    least = min(seen.rho["bob"])
    assert least < 0.5
    assert seen.rho["bob"][-1] > max(0.7, least + 0.2)


def test_a_job_whose_user_says_nothing_of_its_length_is_held_to_the_pace_of_its_own_steps() -> None:
    quiet = of("ann", a_job("quiet"), expected_s=None)
    seen = believed(quiet, of("bob", a_job("other", submit_s=10.0)))
    assert len(seen.rho["ann"]) > 1
    assert min(seen.rho["ann"]) > 0.95


def test_who_asks_for_too_little_memory_is_doubted() -> None:
    program = replace(a_job("small").program, memory=(MemoryPhase(from_share=0.5, gpu_bytes=20 * GIB),))
    small = of("bob", replace(a_job("small"), program=program), request=Request(gpus=1, vram_bytes=8 * GIB))
    seen = believed(small, of("ann", a_job("other", submit_s=10.0)), gib=16, fails=True)
    assert seen.rho["bob"][-1] == pytest.approx(0.5, abs=0.1)


def test_jobs_that_run_as_they_like_are_not_judged() -> None:
    jobs = (a_job("one", atomizable=False), a_job("other", submit_s=10.0, atomizable=False))
    assert believed(*jobs).rho == {}
