"""Who is told that no machine takes a job is told what to do about that, and not about something else."""

from __future__ import annotations

import pytest

from gpunion.coordinator.way_out import IT_DEPENDS, LESS, way_out
from gpunion.domain.why import Why
from gpunion.policy.placement.filters import FOR_GOOD

ABOUT_SIZE = {
    Why.TOO_FEW_GPUS,
    Why.TOO_LITTLE_VRAM,
    Why.WRONG_MODEL,
    Why.TOO_FEW_CPUS,
    Why.TOO_LITTLE_MEMORY,
    Why.NODE_LEFT,
}


@pytest.mark.parametrize("why", sorted(FOR_GOOD))
def test_every_refusal_for_good_has_a_way_out_of_its_own(why: Why) -> None:
    assert (way_out([why, why, Why.NODE_LEFT]) == LESS) == (why in ABOUT_SIZE)


def test_of_different_refusals_none_is_told_as_if_it_were_all() -> None:
    assert way_out([Why.TOO_FEW_GPUS, Why.LAB_NOT_ADMITTED]) == IT_DEPENDS
    assert way_out([]) == LESS
