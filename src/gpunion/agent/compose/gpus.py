"""Which GPUs this machine lends: those its driver shows, or those its owner declares."""

from __future__ import annotations

from gpunion.adapters.cuda import cannot_move
from gpunion.adapters.declared_gpus import DeclaredGpus
from gpunion.adapters.nvml import driver_is_here, find_gpus
from gpunion.agent.compose.runtime_files import AGENT_DIR
from gpunion.agent.settings import Settings
from gpunion.ports.gpus import Gpus

GPU_NUMBERS_FILE = "gpus.json"


def asks_driver(settings: Settings) -> bool:
    """Whether the GPUs lent here are those that NVIDIA's driver shows."""
    asked = settings.gpu_source == "nvml" or (settings.gpu_source == "auto" and not settings.gpus)
    return asked and driver_is_here()


def why_no_park(settings: Settings) -> str:
    """Why no guest can be parked on this machine; empty where its driver can do that. Blocks for seconds."""
    if asks_driver(settings):
        return cannot_move()
    return "its GPUs are only declared" if driver_is_here() else "there is no NVIDIA driver here"


def gpus_of(settings: Settings) -> Gpus:
    """A driver that is there but does not answer keeps nobody from starting: its cards are found later."""
    if asks_driver(settings):
        speeds = {gpu.model: gpu.speed for gpu in settings.gpus}
        return find_gpus(speeds, settings.state_dir / AGENT_DIR / GPU_NUMBERS_FILE)
    return DeclaredGpus(
        () if settings.gpu_source == "nvml" else settings.gpus,
        why="there is no NVIDIA driver here" if settings.gpu_source == "nvml" else "",
    )
