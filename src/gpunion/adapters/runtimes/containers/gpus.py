"""Which GPUs a container may open: exactly the granted ones, or none at all."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

CDI_DIRECTORIES = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
CDI_KIND = "nvidia.com/gpu"
CDI_FILE_MAX_BYTES = 1024 * 1024


class GpuWay(StrEnum):
    """How this engine passes GPUs on this machine."""

    CDI = "cdi"  # by the Container Device Interface: devices, libraries and hooks by name
    REQUESTS = "requests"  # by Docker's device requests, which NVIDIA's container toolkit answers
    DECLARED = "declared"  # there is no NVIDIA driver here: the GPUs are only said to be there


def gpu_words(way: GpuWay, indices: tuple[int, ...]) -> list[str]:
    """Options of `create`. NVIDIA's hook would act on an image's own variable if we set none."""
    if not indices or way is not GpuWay.REQUESTS:
        words = ["--env", "NVIDIA_VISIBLE_DEVICES=void"]  # CDI has no need of the hook
    else:
        named = ",".join(str(index) for index in indices)
        return ["--gpus", f'"device={named}"']
    if way is GpuWay.CDI:
        for index in indices:
            words += ["--device", f"{CDI_KIND}={index}"]
    return words


def find_way(*, cdi: bool, requests: bool, directories: tuple[str, ...] = CDI_DIRECTORIES) -> GpuWay:
    """`cdi`, `requests`: what the engine understands. CDI wins: it names what it opens."""
    if cdi and any(_names_gpus(Path(directory)) for directory in directories):
        return GpuWay.CDI
    if requests and os.path.exists("/dev/nvidiactl"):
        return GpuWay.REQUESTS
    return GpuWay.DECLARED


def _names_gpus(directory: Path) -> bool:
    if not directory.is_dir():
        return False
    for path in sorted(directory.iterdir()):
        if path.suffix in (".json", ".yaml", ".yml"):
            try:
                if CDI_KIND in path.read_text(encoding="utf-8", errors="replace")[:CDI_FILE_MAX_BYTES]:
                    return True
            except OSError:
                continue
    return False
