"""A state machine as a table. A step that is not in the table is a bug, and nobody catches it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

P = TypeVar("P", bound=StrEnum)


class IllegalTransition(Exception):
    def __init__(self, machine: str, subject: str, source: str, target: str) -> None:
        super().__init__(f"{machine} {subject} cannot go from {source} to {target}")


@dataclass(frozen=True, slots=True)
class Edge(Generic[P]):
    source: P
    target: P
    label: str


class Machine(Generic[P]):
    def __init__(self, name: str, initial: Iterable[P], edges: Iterable[Edge[P]]) -> None:
        self.name = name
        self.initial = tuple(initial)
        self.edges = tuple(edges)
        self._allowed = {(edge.source, edge.target) for edge in self.edges}

    def allows(self, source: P, target: P) -> bool:
        return (source, target) in self._allowed

    def check(self, subject: str, source: P, target: P) -> P:
        """Returns the target, so that a step reads as one expression. Staying is always allowed."""
        if source is not target and (source, target) not in self._allowed and source != target:
            raise IllegalTransition(self.name, subject, source, target)
        return target

    def mermaid(self) -> str:
        lines = ["stateDiagram-v2"]
        lines += [f"    [*] --> {phase.value}" for phase in self.initial]
        lines += [f"    {e.source.value} --> {e.target.value}: {e.label}" for e in self.edges]
        sources = {edge.source for edge in self.edges}
        ends = sorted({edge.target.value for edge in self.edges if edge.target not in sources})
        lines += [f"    {end} --> [*]" for end in ends]
        return "\n".join(lines) + "\n"
