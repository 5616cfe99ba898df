"""One machine of a lab, as the coordinator knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gpunion.domain.ids import NodeId
from gpunion.domain.resources import Capacity
from gpunion.domain.terms import Terms


class NodePhase(StrEnum):
    SHARING = "sharing"
    PAUSED = "paused"  # guests may stay, nobody new comes
    RECLAIMING = "reclaiming"  # notice is running
    RECLAIMED = "reclaimed"  # the owner has it
    SILENT = "silent"  # nothing heard for a lease
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What an agent says of its machine when it says hello."""

    lab: str
    capacity: Capacity
    terms: Terms = field(default_factory=Terms)
    runtime: str = "sandbox"
    sandboxed: bool = True
    building: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    id: NodeId
    facts: NodeFacts
    phase: NodePhase
    incarnation: str
    joined_s: float
    phase_since_s: float
    deadline_s: float | None = None
    before_silence: NodePhase | None = None
    departures: int = 0
    lent_gpu_s: float = 0.0
