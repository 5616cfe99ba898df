"""Who is told that no machine takes a job is told what to do about that, and not about something else."""

from __future__ import annotations

import pytest

from gpunion.coordinator.api.refusal_advice import IT_DEPENDS, LESS, nearest, way_out
from gpunion.domain.reasons.reason import because
from gpunion.domain.reasons.why import Why
from gpunion.policy.placement.filters import FOR_GOOD

ABOUT_SIZE = {
    Why.TOO_FEW_GPUS,
    Why.TOO_LITTLE_VRAM,
    Why.WRONG_MODEL,
    Why.OTHER_CAPABILITY,
    Why.OTHER_CUDA,
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


def test_of_machines_with_other_gpus_the_nearest_is_named() -> None:
    asked = {"asked": ">=9.0", "models": "card"}
    refusals = [
        because("old", Why.OTHER_CAPABILITY, has="6.1", **asked),
        because("newer", Why.OTHER_CAPABILITY, has="8.9", **asked),
        because("small", Why.TOO_FEW_GPUS, has=0, needs=1),
    ]
    assert nearest(refusals) == [
        "the nearest is newer: its GPUs (card) have compute capability 8.9, and the job asks for >=9.0"
    ]
    assert nearest(refusals[2:]) == []
