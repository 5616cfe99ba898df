"""Machines that are only thought of, and what is taken for granted of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpunion.domain.gpu_models import declared_speed, is_model, known_speed, most_like, named_memory_bytes
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.lab.replay.recorded import PastMachine

# Of such a machine, by GPU.
ADDED_CPUS, ADDED_MEMORY_BYTES, ADDED_UPLINK_BPS, ADDED_GPU_BYTES = 16.0, 64 * GIB, 1e9, 24 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """`known`: a card of the campus is called so, or its speed is known. `memory_known`: so is its memory."""

    machine: PastMachine
    model: str
    known: bool
    memory_known: bool
    meant: str | None  # what is called most like it, where it is not known

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self.machine.facts.capacity.gpus


def added(gpus: int, model: str, number: int, campus: Sequence[PastMachine]) -> Added:
    """As a card of the campus that is called so, if there is one; else as its name says."""
    alike = next((gpu for gpu in _cards(campus) if is_model(gpu.model, model)), None)
    memory_bytes = named_memory_bytes(model) if alike is None else alike.memory_bytes
    card = Gpu(
        index=0,
        model=model,
        memory_bytes=memory_bytes or ADDED_GPU_BYTES,
        speed=declared_speed(model) if alike is None else alike.speed,
    )
    known = alike is not None or known_speed(model) is not None
    return Added(
        machine=PastMachine(name=f"added-{number}", facts=_facts(card, gpus)),
        model=model,
        known=known,
        memory_known=memory_bytes is not None,
        meant=None if known else most_like(model, (gpu.model for gpu in _cards(campus))),
    )


def _facts(card: Gpu, gpus: int) -> NodeFacts:
    capacity = Capacity(
        gpus=tuple(
            Gpu(index=index, model=card.model, memory_bytes=card.memory_bytes, speed=card.speed)
            for index in range(gpus)
        ),
        cpus=ADDED_CPUS * gpus,
        memory_bytes=ADDED_MEMORY_BYTES * gpus,
        uplink_bps=ADDED_UPLINK_BPS,
    )
    return NodeFacts(lab="added", capacity=capacity)


def _cards(campus: Sequence[PastMachine]) -> Iterator[Gpu]:
    return (gpu for machine in campus for gpu in machine.facts.capacity.gpus)
