"""What an agent remembers across its own restarts, and across a crash in the middle of a write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpunion.domain.protocol.commit import SavedAgent


class DiskFault(Exception):
    """The agent's memory could not be written. What was not ordered yet must not be done before it is."""

    def __init__(self, message: str, *, no_room: bool = False) -> None:
        super().__init__(message)
        self.no_room = no_room  # else the disk itself fails


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """`forgot`: why this is a new incarnation although an agent ran here before; else empty."""

    saved: SavedAgent
    rebooted: bool = False  # since the last write: the clock began anew and no guest can live
    forgot: str = ""


class AgentDisk(Protocol):
    def load(self, now_s: float) -> Remembered:
        """The last state written, or a new incarnation. After a reboot every saved moment counts as past."""
        ...

    def write(self, saved: SavedAgent) -> None:
        """Returns when it would survive a power cut. Whole or not at all; DiskFault when it did not work.

        Blocks, so the agent calls it from a thread; one call at a time.
        """
        ...
