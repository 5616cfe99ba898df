"""A slice of the long fuzz run, so that every change meets some of it. `gpunion sim fuzz` does the rest."""

from __future__ import annotations

import pytest

from gpunion.sim.fuzz import failure_text, run_seed
from gpunion.sim.tally import KINDS

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

SLICES = [range(first, first + 20) for first in range(0, 40, 20)]


@pytest.mark.parametrize("seeds", SLICES, ids=lambda seeds: f"seeds-{seeds.start}-to-{seeds.stop - 1}")
def test_random_campuses_full_of_trouble_break_no_invariant(seeds: range) -> None:
    outcomes = [run_seed(seed) for seed in seeds]
    assert [failure_text(outcome) for outcome in outcomes if not outcome.ok] == []
    met = {kind for outcome in outcomes for kind in KINDS if outcome.troubles[kind]}
    assert met == set(KINDS)
