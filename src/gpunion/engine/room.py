"""What is free, and for whom nothing is: remembered between decisions so that a pass looks at what changed.

Nothing here is a record. Every entry is a fact about the records as they were when it was noted, and a node
whose records change in any way, also in a decision that is taken back, is counted and tried anew. Forgetting
all of it costs time and changes no decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpunion.domain.ids import MigrationId, NodeId
from gpunion.domain.snapshot import NodeView
from gpunion.engine.wishes import Wishes


@dataclass(slots=True)
class Room:
    views: dict[NodeId, NodeView] = field(default_factory=dict)
    reserved: dict[NodeId, set[MigrationId]] = field(default_factory=dict)  # places kept, by destination
    wishes: Wishes = field(default_factory=Wishes)
    slowest_bps: float | None = None  # of all nodes' wires; None: a node's facts have changed since
    lowest_running: int | None = None  # of the priorities of running jobs, as of the version `lowest_at`
    lowest_at: int = -1
    version: int = 0
    _changed: dict[NodeId, int] = field(default_factory=dict)  # the latest change last

    def touch(self, node_id: NodeId) -> None:
        self.version += 1
        self._changed.pop(node_id, None)
        self._changed[node_id] = self.version
        self.views.pop(node_id, None)

    def changed_since(self, version: int) -> Iterator[NodeId]:
        """The latest change first. A node may be among them that is no more."""
        for node_id in reversed(self._changed):
            if self._changed[node_id] <= version:
                return
            yield node_id
