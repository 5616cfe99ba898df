"""The two ports through which a guest is parked: its GPU memory goes to host memory, and it stands still."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class CannotMove(Exception):
    """Why the driver did not move a guest's GPU memory, in words."""


class CannotFreeze(Exception):
    """Why a guest does not stand still, in words. It goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkNote:
    """What has to be known to bring a guest back, kept beside it: it outlives the agent."""

    pids: tuple[int, ...]  # whose GPU memory was moved
    moved_bytes: int
    took_s: float = 0.0
    frozen: bool = False  # False: it was being parked when somebody last looked


class Freezer(Protocol):
    """For runtimes whose guests can be made to stand still. A frozen guest can be killed as ever."""

    def processes(self, run_id: str) -> frozenset[int]:
        """Its living processes, without the keeper."""
        ...

    def stretch(self, run_id: str, extra_bytes: int) -> None:
        """It may take so much more memory than it was granted, since what was on the GPU counts as its own,
        and every core: somebody waits for it. 0: what it was granted, and no more."""
        ...

    def freeze(self, run_id: str) -> None:
        """Nothing of it runs when this returns. Again: nothing. CannotFreeze where it did not work."""
        ...

    def thaw(self, run_id: str) -> None:
        """It runs again. Again, or never frozen: nothing."""
        ...

    def note(self, run_id: str) -> ParkNote | None: ...

    def write_note(self, run_id: str, note: ParkNote | None) -> None:
        """None: it is forgotten."""
        ...


class GpuMemory(Protocol):
    """Moves the GPU memory of processes. Blocks for as long as it was told, not longer."""

    def why_not(self, uuids: Sequence[str]) -> str:
        """Empty where nothing speaks against it on these GPUs; else why it cannot be done."""
        ...

    def computing(self, pids: frozenset[int]) -> tuple[int, ...]:
        """Those of the processes that have a GPU open."""
        ...

    def to_host(self, pids: Sequence[int], limit_s: float) -> None:
        """Of all of them or of none. Again: nothing. CannotMove: they compute on as before."""
        ...

    def to_gpu(self, pids: Sequence[int], limit_s: float) -> None:
        """They must not be frozen. Again: nothing. CannotMove: they cannot go on."""
        ...
