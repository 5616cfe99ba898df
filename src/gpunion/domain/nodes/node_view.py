"""What the policies see of a node: its record and what is free of it right now."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.nodes.node import Node
from gpunion.domain.resources import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    node: Node
    free_gpus: tuple[Gpu, ...]
    free_cpus: float
    free_memory_bytes: int
    guests: int
    installed: frozenset[str] = frozenset()  # digests of the campus's environments that lie ready there

    @property
    def lent_memory_bytes(self) -> int:
        capacity = self.node.facts.capacity.memory_bytes
        allowed = self.node.facts.terms.memory_bytes
        return capacity if allowed is None else min(capacity, allowed)
