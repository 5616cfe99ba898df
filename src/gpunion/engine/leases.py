"""Who was heard when. Lives in memory only: heartbeats cost no writes."""

from __future__ import annotations

from gpunion.domain.ids import NodeId


class LeaseBook:
    def __init__(self, silence_s: float) -> None:
        self.silence_s = silence_s
        self._heard_s: dict[NodeId, float] = {}

    def heard(self, node_id: NodeId, now_s: float) -> None:
        self._heard_s[node_id] = max(now_s, self._heard_s.get(node_id, now_s))

    def forget(self, node_id: NodeId) -> None:
        self._heard_s.pop(node_id, None)

    def last_heard_s(self, node_id: NodeId) -> float | None:
        return self._heard_s.get(node_id)

    def next_s(self) -> float | None:
        return min(self._heard_s.values()) + self.silence_s if self._heard_s else None

    def overdue(self, now_s: float) -> list[tuple[NodeId, float]]:
        if not self._heard_s:
            return []
        # The same sum as in next_s: a difference may round the other way, and who sleeps until next_s would
        # then find nothing due, for ever where the clock is virtual.
        late = [(node, at) for node, at in self._heard_s.items() if at + self.silence_s <= now_s]
        return late if not late else sorted(late, key=lambda pair: (pair[1], pair[0]))
