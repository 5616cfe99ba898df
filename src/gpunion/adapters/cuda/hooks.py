"""Around a dump of a whole guest: its GPU memory goes to host memory first, where the dump finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpunion.adapters.cuda import NotParked, NotUnparked, computing, park, states, unpark, why_not
from gpunion.ports.checkpointer import DumpRefused, RestoreRefused
from gpunion.ports.gpus import GpuDevice

BACK_LIMIT_S = 120.0  # nobody waits at a deadline for this; a driver that takes longer hangs
MOVED = ("locked", "checkpointed")


class CudaHooks:
    """Implements `ports.checkpointer.DumpHooks`."""

    def __init__(self, device_of: Callable[[int], GpuDevice | None]) -> None:
        self._device_of = device_of

    def covers(self, gpu_indices: Sequence[int]) -> str:
        if len(gpu_indices) > 1:
            return "a guest on several GPUs talks between them (NCCL), and that cannot be dumped"
        devices = (self._device_of(index) for index in gpu_indices)
        return why_not([device.uuid for device in devices if device is not None])

    def before_dump(self, pids: Sequence[int], limit_s: float) -> None:
        on_gpu = computing(pids)
        if on_gpu:
            try:
                park(on_gpu, limit_s)
            except NotParked as trouble:
                raise DumpRefused(f"its GPU memory could not be moved: {trouble}") from trouble

    def after_dump(self, pids: Sequence[int]) -> None:
        """What does not come back is ended by its limits; there is nobody to tell here."""
        moved = _moved(pids)
        if moved:
            try:
                unpark(moved, BACK_LIMIT_S)
            except NotUnparked:
                return

    def after_restore(self, pids: Sequence[int]) -> None:
        moved = _moved(pids)
        if moved:
            try:
                unpark(moved, BACK_LIMIT_S)
            except NotUnparked as trouble:
                raise RestoreRefused(f"its GPU memory did not come back: {trouble}") from trouble


def _moved(pids: Sequence[int]) -> list[int]:
    """By the driver's own word: a guest that was brought back has no file of the card open yet."""
    return [pid for pid, state in states(pids).items() if state in MOVED]
