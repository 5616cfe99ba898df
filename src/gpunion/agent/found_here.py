"""What was found out about this machine by trying, in words for its owner."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedRuntime:
    name: str
    described: str = ""  # how it would confine guests, where it works
    trouble: str = ""
    mend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What a runtime keeps for us outside the state directory. `trouble`: why that cannot be told."""

    containers: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    host_image: str = ""  # of all agents on this machine: it goes with the last of them
    trouble: str = ""
