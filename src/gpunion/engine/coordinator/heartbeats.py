"""Who was heard when. Lives in memory only: heartbeats cost no writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpunion.domain.ids import CheckpointId, NodeId, RunId
from gpunion.domain.protocol.frames import SaveNote, SaveStage, SessionNote


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


# More than any save has, and small enough for every reader of JSON to take as it is.
SIZE_MAX_BYTES = 2**50
FOR_MAX_S = 366 * 86400.0
# A word that is older than so many heartbeats says nothing of now.
FRESH_BEATS = 3
_STAGES = frozenset(stage.value for stage in SaveStage)


class HeardSaves:
    def __init__(self) -> None:
        self.heard_s: float | None = None  # None: nothing on this connection yet
        self._notes: dict[RunId, SaveNote] = {}

    def take(self, now_s: float, told: Iterable[SaveNote]) -> None:
        """All that is under way there. What is not repeated is over."""
        self.heard_s = now_s
        self._notes = {note.run_id: _bounded(note) for note in told if note.stage in _STAGES}

    def forget(self) -> None:
        self.heard_s = None
        self._notes = {}

    def fresh(self, now_s: float, heartbeat_s: float) -> bool:
        return self.heard_s is not None and now_s - self.heard_s <= FRESH_BEATS * heartbeat_s

    def of(self, run_id: RunId, checkpoint_id: CheckpointId) -> SaveNote | None:
        note = self._notes.get(run_id)
        return note if note is not None and note.checkpoint_id == checkpoint_id else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardSession:
    """What a machine said of a session last, and when."""

    note: SessionNote
    heard_s: float

    def idle_s(self, now_s: float) -> float:
        return self.note.idle_s + max(0.0, now_s - self.heard_s)


def _bounded(note: SaveNote) -> SaveNote:
    total_bytes = None if note.total_bytes is None else max(0, min(note.total_bytes, SIZE_MAX_BYTES))
    return replace(
        note,
        for_s=None if note.for_s is None else max(0.0, min(note.for_s, FOR_MAX_S)),
        done_bytes=max(0, min(note.done_bytes, total_bytes or 0)),
        total_bytes=total_bytes,
    )
