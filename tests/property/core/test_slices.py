"""Slices of cards, however cards are cut and whoever asks: which GPUs a job is given."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gpunion.domain.jobs.job import CheckpointWish
from gpunion.domain.resources import GIB, Gpu
from gpunion.domain.system_tier import Tier
from gpunion.policy.placement.filters import refusal, suitable
from gpunion.policy.placement.pick import Placed, choose_gpus, place
from gpunion.policy.policies import LIVE
from tests.unit.core.policy.test_slices import seen, wants

SHAPES = (10, 20, 40)


@st.composite
def machines(draw: st.DrawFn) -> list[Gpu]:
    """Up to four cards, whole or cut."""
    found: list[Gpu] = []
    for number in range(draw(st.integers(1, 4))):
        cut = draw(st.lists(st.sampled_from(SHAPES), max_size=7))
        whole = Gpu(
            index=len(found), model="A100", memory_bytes=80 * GIB, speed=draw(st.sampled_from((1.0, 2.0)))
        )
        slices = [
            replace(
                whole,
                index=len(found) + at,
                memory_bytes=gib * GIB,
                speed=whole.speed * gib / 80,
                card=f"GPU-{number}",
                profile=f"{gib}gb",
            )
            for at, gib in enumerate(cut)
        ]
        found += slices or [whole]
    return found


@given(machines(), st.sampled_from((5, 10, 15, 20, 30, 40, 60)), st.integers(1, 3), st.booleans())
def test_a_job_gets_the_smallest_slice_that_fits_or_whole_cards(
    gpus: list[Gpu], gib: int, count: int, saved_whole: bool
) -> None:
    job = wants(gib, gpus=count)
    if saved_whole:
        job = replace(job, spec=replace(job.spec, checkpoint=CheckpointWish(tier=Tier.SYSTEM)))
    view = seen(*gpus)
    found = place(job, [view], 0.0, LIVE.scoring)
    assert isinstance(found, Placed) == (refusal(job, view, 0.0) is None)
    if not isinstance(found, Placed):
        fitting = [gpu for gpu in gpus if gpu.memory_bytes >= gib * GIB]
        alone = count == 1 and not saved_whole
        assert len([gpu for gpu in fitting if alone or not gpu.card]) < count
        return
    taken = [gpu for gpu in gpus if gpu.index in found.grant.gpu_indices]
    assert len(taken) == count
    assert all(gpu.memory_bytes >= gib * GIB for gpu in taken)
    if count > 1 or saved_whole:
        assert not any(gpu.card for gpu in taken)  # so never several of one card either
        return
    slices = [gpu for gpu in gpus if gpu.card and gpu.memory_bytes >= gib * GIB]
    if slices:
        assert taken[0].card
        assert taken[0].memory_bytes == min(gpu.memory_bytes for gpu in slices)


@given(machines(), st.sampled_from((5, 15, 30)), st.randoms())
def test_the_order_in_which_gpus_are_listed_changes_nothing(
    gpus: list[Gpu], gib: int, random: Random
) -> None:
    job = wants(gib)
    mixed = [*gpus]
    random.shuffle(mixed)
    assert choose_gpus(job, seen(*gpus)) == choose_gpus(job, seen(*mixed))
    assert {gpu.index for gpu in suitable(tuple(gpus), job.request)} == {
        gpu.index for gpu in suitable(tuple(mixed), job.request)
    }
