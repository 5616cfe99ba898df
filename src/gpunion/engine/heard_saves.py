"""What a node said last of the saves that are under way on it. In memory only: heartbeats cost no writes.

Shown to people beside what is stored, and used for nothing else. All of it is an agent's word, so it is taken
for the node's own runs only, one save of each, and within bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpunion.domain.frames import SaveNote, SaveStage
from gpunion.domain.ids import CheckpointId, NodeId, RunId
from gpunion.domain.replacing import replace
from gpunion.domain.run import Run

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

    def take(
        self, now_s: float, told: Iterable[SaveNote], node_id: NodeId, runs: Mapping[RunId, Run]
    ) -> None:
        """All that is under way there. What is not repeated is over."""
        self.heard_s = now_s
        self._notes = {
            note.run_id: _bounded(note)
            for note in told
            if note.stage in _STAGES and note.run_id in runs and runs[note.run_id].node_id == node_id
        }

    def forget(self) -> None:
        self.heard_s = None
        self._notes = {}

    def fresh(self, now_s: float, heartbeat_s: float) -> bool:
        return self.heard_s is not None and now_s - self.heard_s <= FRESH_BEATS * heartbeat_s

    def of(self, run_id: RunId, checkpoint_id: CheckpointId) -> SaveNote | None:
        note = self._notes.get(run_id)
        return note if note is not None and note.checkpoint_id == checkpoint_id else None


def _bounded(note: SaveNote) -> SaveNote:
    total_bytes = None if note.total_bytes is None else max(0, min(note.total_bytes, SIZE_MAX_BYTES))
    return replace(
        note,
        for_s=None if note.for_s is None else max(0.0, min(note.for_s, FOR_MAX_S)),
        done_bytes=max(0, min(note.done_bytes, total_bytes or 0)),
        total_bytes=total_bytes,
    )
