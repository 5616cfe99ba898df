"""A node that lies harms nobody but its own guests. `make attack` says more of it than this."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gpunion.domain.ids import NodeId
from gpunion.sim.lying.lies import REPORTS, Forger
from gpunion.sim.world import Parts
from gpunion.wire import agent_v1
from gpunion.wire.codec import Malformed
from tests.attack.frames import Tally, attack
from tests.builders.headquarters import a_running_job
from tests.simulation import planted_bugs as bugs

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

SLICES = [range(first, first + 5) for first in range(0, 40, 5)]
# Of one slice, at least: fewer, and the liar has hardly opened its mouth.
FRAMES = 5_000


@pytest.mark.parametrize("seeds", SLICES, ids=lambda seeds: f"seeds-{seeds.start}-to-{seeds.stop - 1}")
def test_whatever_one_of_three_nodes_says_the_others_and_their_jobs_end_as_without_it(seeds: range) -> None:
    tally = Tally()
    for seed in seeds:
        attack(seed, tally)
    assert tally.through == []
    assert tally.said > FRAMES
    assert tally.given_to_the_liar > 0
    assert tally.isolated == len(seeds)
    assert tally.reasons["node_isolated"] >= len(seeds)
    assert tally.compared == 4 * len(seeds)


@pytest.mark.parametrize("bug", [bugs.CoordinatorThatBelievesAnybody, bugs.CoordinatorBlindToEpochs])
def test_a_coordinator_that_believes_too_much_is_found_out(bug: type) -> None:
    tally = Tally()
    for seed in range(6):
        attack(seed, tally, Parts(coordinator_station=bug))
    assert tally.through


def test_every_kind_of_report_is_made_up_so_that_most_can_be_read() -> None:
    forger, said = Forger(random.Random(1), NodeId("alpha")), Counter[str]()
    campus = a_running_job().state
    for _ in range(2_000):
        plain = forger.report(campus, seq=1, ack=0, now_s=5.0)
        try:
            frame = agent_v1.unpack_from_agent(forger.envelope(plain))
        except Malformed:
            said["unreadable"] += 1
        else:
            said[type(getattr(frame, "report", frame)).__name__] += 1
    assert {kind.__name__ for kind in REPORTS} <= set(said)
    assert 0 < said["unreadable"] < 1_000
