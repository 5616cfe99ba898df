"""What machines say of their GPUs is shown while it is fresh, and forgotten with them."""

from __future__ import annotations

from dataclasses import replace

from gpunion.coordinator.metrics.hardware import FRESH_S, NAMED_FOR_S, Hardware
from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.frames import GpuReading, GpuReadings
from gpunion.ports.gpu_series import MEMORY, UTILISATION
from gpunion.ports.metrics import Sample
from tests.builders.values import a_node

ALPHA = NodeId("alpha")
NODE = a_node()
GPUS = tuple(replace(gpu, declared=False) for gpu in NODE.facts.capacity.gpus)
SEEN = replace(NODE, facts=replace(NODE.facts, capacity=replace(NODE.facts.capacity, gpus=GPUS)))
NODES = {ALPHA: SEEN}


def word(uuid: str = "GPU-1", index: int = 0, utilisation: float = 0.5) -> GpuReading:
    return GpuReading(index=index, uuid=uuid, utilisation=utilisation)


def shown(*readings: GpuReading) -> list[Sample]:
    hardware = Hardware(lambda: 0.0)
    hardware.take(ALPHA, GpuReadings(gpus=readings))
    return list(hardware.samples(NODES))


def test_a_gpu_is_shown_by_its_uuid_its_model_and_its_machine() -> None:
    labels = ("GPU-1", GPUS[0].model, "alpha")
    assert shown(word()) == [
        Sample(series=UTILISATION, value=0.5, labels=labels),
        Sample(series=MEMORY, value=GPUS[0].memory_bytes, labels=labels),
    ]


def test_a_machine_that_falls_silent_or_goes_leaves_nothing_behind() -> None:
    now = [100.0]
    hardware = Hardware(lambda: now[0])
    hardware.take(ALPHA, GpuReadings(gpus=(word(),)))
    now[0] += FRESH_S
    assert list(hardware.samples(NODES))
    now[0] += 0.1
    assert list(hardware.samples(NODES)) == []
    hardware.take(ALPHA, GpuReadings(gpus=(word(),)))
    hardware.forget(ALPHA)
    assert list(hardware.samples(NODES)) == []


def test_a_machine_that_gives_two_gpus_one_name_breaks_no_page() -> None:
    assert shown(word(), word(index=1)) == shown(word())


def test_a_gpu_that_the_machine_does_not_have_is_not_shown() -> None:
    assert shown(word(index=9)) == []
    assert shown(word(uuid="")) == []


def test_a_machine_that_calls_its_gpu_something_else_each_time_makes_one_series_an_hour() -> None:
    now = [0.0]
    hardware = Hardware(lambda: now[0])
    names: set[tuple[str, ...]] = set()
    for number in range(500):
        now[0] += 5.0
        hardware.take(ALPHA, GpuReadings(gpus=(word(f"GPU-{number}"),)))
        model = replace(GPUS[0], model=f"model {number}")
        capacity = replace(NODE.facts.capacity, gpus=(model,))
        node = replace(NODE, facts=replace(NODE.facts, capacity=capacity))
        names |= {sample.labels for sample in hardware.samples({ALPHA: node})}
        if number % 7 == 0:
            hardware.forget(ALPHA)  # and connects anew
    assert names == {("GPU-0", "model 0", "alpha")}


def test_a_card_that_was_exchanged_is_shown_within_the_hour() -> None:
    now = [0.0]
    hardware = Hardware(lambda: now[0])
    hardware.take(ALPHA, GpuReadings(gpus=(word("GPU-old"),)))
    assert list(hardware.samples(NODES))
    now[0] += NAMED_FOR_S
    hardware.take(ALPHA, GpuReadings(gpus=(word("GPU-new"),)))
    assert {sample.labels[0] for sample in hardware.samples(NODES)} == {"GPU-new"}
