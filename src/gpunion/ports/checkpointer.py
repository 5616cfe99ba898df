"""The port through which an agent takes a whole guest as it is, and brings it back to life: tier `system`.

A runtime that can do this implements it beside `Runtime`. A dump is a directory: what is in it is the
adapter's business, the guest's own directories are not in it. They are the caller's to copy while the guest
stands still.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gpunion.domain.system_tier import SystemAbility
from gpunion.ports.runtime import GuestSpec, Runtime


class DumpRefused(Exception):
    """Why there is no dump, in words. The guest goes on as if nobody had asked."""


class RestoreRefused(Exception):
    """Why this dump does not come to life here, in words. Nothing of the guest runs."""


class DumpHooks(Protocol):
    """What has to happen to a guest's devices around a dump. Each call names its living processes."""

    def covers(self, gpu_indices: Sequence[int]) -> str:
        """Empty where a guest with these GPUs can be dumped; else why not."""
        ...

    def before_dump(self, pids: Sequence[int], limit_s: float) -> None:
        """The guest still runs. Raise DumpRefused to call it off; `after_dump` is then not called."""
        ...

    def after_dump(self, pids: Sequence[int]) -> None:
        """The guest goes on: also after a dump that failed."""
        ...

    def after_restore(self, pids: Sequence[int]) -> None:
        """The guest is back in memory, on this machine's devices. Raise RestoreRefused if it cannot go on."""
        ...


class Checkpointer(Protocol):
    """Dumps and restores guests of the runtime it belongs to. Times are seconds."""

    async def ability(self) -> SystemAbility:
        """Tried with a small guest the first time, which takes seconds; remembered until an update."""
        ...

    async def dump(self, run_id: str, into: Path, *, limit_s: float, parked: bool = False) -> None:
        """Freeze the guest and write what it is to `into`, which must not exist.

        `parked`: it stands still already and has nothing on its devices. It is left so, dumped or not; nobody
        asks a driver, and `release` does nothing to it.

        Afterwards it stands still until `release` or `kill`: copy its directories meanwhile. Not done within
        `limit_s`, or not possible: DumpRefused, and the guest goes on. A frozen guest is still ended by
        its limits and by its owner.
        """
        ...

    async def release(self, run_id: str) -> None:
        """Let a guest go on that was dumped. Again, ended or unknown: nothing."""
        ...

    async def restore(self, spec: GuestSpec, dump: Path) -> None:
        """In place of `Runtime.start`: bring a dumped guest back, under this run's names and limits.

        The guest's directories have to be as they were when it stood still. RestoreRefused when it does not
        come back: nothing of it runs, and the run cannot be started either.
        """
        ...


class WholeRuntime(Runtime, Checkpointer, Protocol):
    """A runtime whose guests can be dumped whole."""
