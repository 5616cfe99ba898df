"""A slice of the long fuzz run, so that every change meets some of it. `gpunion sim fuzz` does the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.protocol.commit import Commit
from gpunion.domain.resources import GIB
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.sim.fault_points import KINDS
from gpunion.sim.fuzz import failure_text, run_seed
from gpunion.sim.observer import Watch
from gpunion.sim.run import run_scenario
from gpunion.sim.scenario.generate import random_scenario

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

SLICES = [range(first, first + 20) for first in range(0, 40, 20)]


@pytest.mark.parametrize("seeds", SLICES, ids=lambda seeds: f"seeds-{seeds.start}-to-{seeds.stop - 1}")
def test_random_campuses_full_of_trouble_break_no_invariant(seeds: range) -> None:
    outcomes = [run_seed(seed) for seed in seeds]
    assert [failure_text(outcome) for outcome in outcomes if not outcome.ok] == []
    met = {kind for outcome in outcomes for kind in KINDS if outcome.troubles[kind]}
    assert met == set(KINDS)


class GpusGivenOn(Watch):
    """Counts decisions after which somebody has the GPUs of a run whose output is still being sent."""

    def __init__(self) -> None:
        self.seen = 0

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        runs = station.engine.state.runs
        for living in station.engine.state.living.values():
            held = {index for run_id in living for index in runs[run_id].held_gpus}
            back = (runs[run_id].grant.gpu_indices for run_id in living if runs[run_id].gpus_back)
            self.seen += any(held & set(indices) for indices in back)


def test_outputs_that_take_minutes_to_send_break_no_invariant_while_others_have_the_gpus() -> None:
    watch = GpusGivenOn()
    for seed in range(15):
        scenario = random_scenario(seed, urgent=False)  # those of a crowd take longer than there is time
        jobs = [replace(job, program=replace(job.program, output_bytes=4 * GIB)) for job in scenario.jobs]
        large = replace(scenario, jobs=tuple(jobs))
        outcome = run_scenario(large, prepare=lambda world: world.watch(watch))
        assert (seed, outcome.violations) == (seed, ())
    assert watch.seen
