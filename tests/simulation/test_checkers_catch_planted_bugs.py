"""A checker that never fails shows nothing: each broken part must be caught, by the invariant it breaks."""

from __future__ import annotations

import pytest

from gpunion.sim.fuzz import policies, run_seed
from gpunion.sim.world import Parts
from tests.simulation import planted_bugs as bugs

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

# Every bug below shows within the first few seeds; the range leaves room for a changed generator.
SEEDS = range(20)

PLANTED = {
    "no epoch is checked, by agent or vault": (
        Parts(agent_station=bugs.AgentWithoutEpochs, vault=bugs.VaultWithoutEpochs),
        3,
    ),
    "the kill timer is forgotten": (Parts(agent_station=bugs.AgentWithoutKillTimer), 1),
    "a window's end is no limit of its keeper": (
        Parts(policies=policies(urgent=False, windows=True), agent_station=bugs.AgentWithoutWindowLimits),
        14,
    ),
    "a guest starts against its owner's word": (Parts(agent_station=bugs.AgentDeafToItsOwner), 2),
    "a GPU is given twice": (
        Parts(coordinator_station=bugs.CoordinatorOfOneGpu, agent_station=bugs.AgentBlindToItsGuests),
        5,
    ),
    "a checkpoint is called durable and was never sealed": (Parts(vault=bugs.VaultThatOnlySaysSo), 4),
    "what a gang might go back to is thrown away": (Parts(vault=bugs.VaultThatKeepsTheNewestOnly), 4),
    "a gang's member goes on from a step of its own": (Parts(vault=bugs.VaultThatKnowsBetter), 12),
    "last saves go faster than they may": (Parts(agent_station=bugs.AgentInAHurry), 6),
    "a GPU is given away before whoever makes room is off it": (
        Parts(coordinator_station=bugs.CoordinatorThatGivesTooSoon, agent_station=bugs.AgentBlindToItsGuests),
        5,
    ),
    "a GPU is given away before the driver has moved what is on it": (
        Parts(
            coordinator_station=bugs.CoordinatorThatCannotWaitForTheDriver,
            agent_station=bugs.AgentBlindToItsGuests,
        ),
        5,
    ),
    "who made room is asked again at once": (Parts(coordinator_station=bugs.CoordinatorThatAsksAgain), 13),
    "nobody is told why": (Parts(coordinator_station=bugs.TaciturnCoordinator), 8),
    "an acknowledged report is lost": (Parts(campus_disk=bugs.DiskThatLosesReports), 7),
    "any node's word about any run counts": (
        Parts(coordinator_station=bugs.CoordinatorThatBelievesAnybody),
        10,
    ),
    "a word of an earlier epoch counts": (Parts(coordinator_station=bugs.CoordinatorBlindToEpochs), 3),
    "an agent forgets to say that a run ended": (Parts(agent_station=bugs.AgentThatForgetsToReport), 10),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_caught_by_the_invariant_it_breaks(bug: str) -> None:
    parts, invariant = PLANTED[bug]
    assert any(invariant in run_seed(seed, parts).invariants for seed in SEEDS)


def test_without_a_planted_bug_the_same_seeds_are_clean() -> None:
    assert {seed: outcome.violations[:1] for seed in SEEDS if not (outcome := run_seed(seed)).ok} == {}
