"""Slices of MIG cards are scheduled as they are found."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.job import CheckpointWish, Job
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB, Gpu
from gpunion.domain.system_tier import SystemAbility, Tier
from gpunion.policy.placement.filters import refusal
from gpunion.policy.placement.pick import choose_gpus
from tests.builders.values import a_job, a_node, a_spec, a_view

SHAPES = (("3g.40gb", 40, 0.8), ("2g.20gb", 20, 0.5), ("1g.10gb", 10, 0.25), ("1g.10gb", 10, 0.25))
SLICES = tuple(
    Gpu(
        index=index,
        model=f"A100-SXM4-80GB MIG {profile}",
        memory_bytes=gib * GIB,
        speed=speed,
        card="GPU-a",
        profile=profile,
    )
    for index, (profile, gib, speed) in enumerate(SHAPES)
)
WHOLE = Gpu(index=4, model="A100-SXM4-80GB", memory_bytes=80 * GIB, speed=1.8)


def a_sliced_node(*gpus: Gpu) -> Node:
    node = a_node()
    capacity = replace(node.facts.capacity, gpus=gpus or SLICES, cpus=64.0, memory_bytes=256 * GIB)
    able = SystemAbility(able=True, why_not="", kind="modelled")
    return replace(node, facts=replace(node.facts, capacity=capacity, system=able))


def seen(*gpus: Gpu) -> NodeView:
    node = a_sliced_node(*gpus)
    return a_view(node, free_gpus=node.facts.capacity.gpus, free_cpus=64.0, free_memory_bytes=256 * GIB)


def wants(gib: float, *, gpus: int = 1) -> Job:
    spec = a_spec()
    request = replace(spec.request, vram_bytes=int(gib * GIB), gpus=gpus)
    return a_job(spec=replace(spec, request=request))


def test_the_smallest_slice_that_does_is_taken_and_a_whole_card_last() -> None:
    view = seen(*SLICES, WHOLE)
    taken = {gib: choose_gpus(wants(gib), view)[0].index for gib in (5, 10, 15, 30, 60)}
    assert taken == {5: 2, 10: 2, 15: 1, 30: 0, 60: 4}


def test_a_job_of_several_gpus_never_gets_slices() -> None:
    job = wants(5, gpus=2)
    refused = refusal(job, seen(), 0.0)
    assert refused is not None
    assert refused.why is Why.SLICES_APART
    two_whole = seen(*SLICES, WHOLE, replace(WHOLE, index=5))
    assert refusal(job, two_whole, 0.0) is None
    assert [gpu.index for gpu in choose_gpus(job, two_whole)] == [4, 5]


def test_a_job_that_is_saved_whole_gets_no_slice() -> None:
    job = wants(5)
    job = replace(job, spec=replace(job.spec, checkpoint=CheckpointWish(tier=Tier.SYSTEM)))
    refused = refusal(job, seen(), 0.0)
    assert refused is not None
    assert refused.why is Why.SLICE_NOT_DUMPED
    assert [gpu.index for gpu in choose_gpus(job, seen(*SLICES, WHOLE))] == [4]
    assert choose_gpus(replace(job, dumps_given_up=True), seen(*SLICES, WHOLE))[0].card
