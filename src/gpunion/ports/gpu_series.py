"""Series of GPUs, the same on the coordinator's page and on a machine's own. What a driver does not say is
absent; so is everything of a GPU that no driver has seen."""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.protocol.frames import GpuReading
from gpunion.domain.resources import Gpu
from gpunion.ports.metrics import Sample, Series, SeriesKind

LABELS = ("uuid", "model", "node")


def _gauge(name: str, help: str) -> Series:
    return Series(name=name, help=help, kind=SeriesKind.GAUGE, labels=LABELS)


UTILISATION = _gauge("gpu_utilisation_ratio", "How much of the time the GPU worked, 0 to 1.")
MEMORY = _gauge("gpu_memory_bytes", "Memory the GPU has.")
MEMORY_USED = _gauge("gpu_memory_used_bytes", "Memory of the GPU that is taken.")
TEMPERATURE = _gauge("gpu_temperature_celsius", "How hot the GPU is.")
POWER = _gauge("gpu_power_watts", "What the GPU draws.")
GPU_SERIES = (UTILISATION, MEMORY, MEMORY_USED, TEMPERATURE, POWER)


def gpu_samples(node: str, gpus: Iterable[Gpu], readings: Iterable[GpuReading]) -> list[Sample]:
    """Of GPUs that the machine has, by its own word, each once."""
    known = {gpu.index: gpu for gpu in gpus if not gpu.declared}
    samples: list[Sample] = []
    seen: set[str] = set()
    for reading in readings:
        gpu = known.get(reading.index)
        if gpu is None or not reading.uuid or reading.uuid in seen:
            continue
        seen.add(reading.uuid)
        values = (
            (UTILISATION, reading.utilisation),
            (MEMORY, gpu.memory_bytes),
            (MEMORY_USED, reading.memory_used_bytes),
            (TEMPERATURE, reading.temperature_c),
            (POWER, reading.power_w),
        )
        labels = (reading.uuid, gpu.model, node)
        samples += [
            Sample(series=one, value=value, labels=labels) for one, value in values if value is not None
        ]
    return samples
