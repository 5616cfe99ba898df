"""What is free, and for whom nothing is: remembered between decisions so that a pass looks at what changed.

Nothing here is a record. Every entry is a fact about the records as they were when it was noted, and a node
whose records change in any way, also in a decision that is taken back, is counted and tried anew. Forgetting
all of it costs time and changes no decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpunion.domain.ids import JobId, MigrationId, NodeId
from gpunion.domain.job import Job
from gpunion.domain.snapshot import NodeView
from gpunion.policy.ordering import Ordering, SortKey

# Different wishes remembered as unfulfillable; beyond it the memory starts again. A few kilobytes each.
HOPELESS_MOST = 4096


@dataclass(slots=True)
class Room:
    views: dict[NodeId, NodeView] = field(default_factory=dict)
    reserved: dict[NodeId, set[MigrationId]] = field(default_factory=dict)  # places kept, by destination
    _version: int = 0
    _changed: dict[NodeId, int] = field(default_factory=dict)  # the latest change last
    _hopeless: dict[object, int] = field(default_factory=dict)
    _keys: dict[JobId, tuple[Job, SortKey]] = field(default_factory=dict)

    def touch(self, node_id: NodeId) -> None:
        self._version += 1
        self._changed.pop(node_id, None)
        self._changed[node_id] = self._version
        self.views.pop(node_id, None)

    def is_hopeless(self, wish: object) -> bool:
        return wish in self._hopeless

    def note_hopeless(self, wish: object) -> None:
        """No node there is would do for it now."""
        if len(self._hopeless) >= HOPELESS_MOST:
            self._hopeless.clear()
        self._hopeless[wish] = self._version

    def changed_since_hopeless(self, wish: object) -> Iterator[NodeId]:
        """Nodes that changed since nothing would do for this wish: only they are worth asking."""
        since = self._hopeless[wish]
        for node_id in reversed(self._changed):
            if self._changed[node_id] <= since:
                return
            yield node_id

    def order_key(self, ordering: Ordering, job: Job) -> SortKey:
        """The place in the queue of a job that did not change since it was last asked for."""
        known = self._keys.get(job.id)
        if known is None or known[0] is not job:
            known = self._keys[job.id] = (job, ordering.key(job))
        return known[1]

    def not_waiting(self, job_id: JobId) -> None:
        self._keys.pop(job_id, None)
