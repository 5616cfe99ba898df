"""How far the saves of this machine's guests are, for people to see.

That there is one, and whether its program has written it, the engine knows. What the hands do for it is noted
on a board beside: it is worth nothing after a restart, and no decision depends on it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpunion.domain.frames import SaveNote, SaveStage
from gpunion.domain.guest import Guest
from gpunion.domain.ids import CheckpointId, RunId


@dataclass(frozen=True, slots=True)
class _Words:
    checkpoint_id: CheckpointId
    stage: SaveStage
    done_bytes: int = 0
    total_bytes: int | None = None


class SavesBoard:
    """Written to from any thread; read by every heartbeat."""

    def __init__(self) -> None:
        self._said: dict[RunId, _Words] = {}
        self._lock = threading.Lock()

    def say(self, run_id: RunId, checkpoint_id: CheckpointId, stage: SaveStage) -> None:
        self._put(run_id, _Words(checkpoint_id, stage))

    def sending(self, run_id: RunId, checkpoint_id: CheckpointId) -> Callable[[int, int], None]:
        """To be told how many bytes of how many are done."""

        def told(done_bytes: int, total_bytes: int) -> None:
            self._put(run_id, _Words(checkpoint_id, SaveStage.SENDING, done_bytes, total_bytes))

        return told

    def clear(self, run_id: RunId, checkpoint_id: CheckpointId) -> None:
        """Nothing is being done for it any more; what is said of a later one stays."""
        with self._lock:
            if run_id in self._said and self._said[run_id].checkpoint_id == checkpoint_id:
                del self._said[run_id]

    def note_of(self, guest: Guest, now_s: float) -> SaveNote | None:
        saving = guest.saving
        if saving is None:
            return None
        with self._lock:
            words = self._said.get(guest.run_id)
        if words is None or words.checkpoint_id != saving.checkpoint_id:
            idle = SaveStage.WRITTEN if saving.saved else SaveStage.ASKED
            words = _Words(saving.checkpoint_id, idle)
        return SaveNote(
            run_id=guest.run_id,
            checkpoint_id=saving.checkpoint_id,
            stage=words.stage.value,
            for_s=max(0.0, now_s - saving.saved_s) if saving.saved else None,
            done_bytes=words.done_bytes,
            total_bytes=words.total_bytes,
        )

    def notes(self, guests: Iterable[Guest], now_s: float) -> tuple[SaveNote, ...]:
        found = (self.note_of(guest, now_s) for guest in guests)
        return tuple(note for note in found if note is not None)

    def _put(self, run_id: RunId, words: _Words) -> None:
        with self._lock:
            self._said[run_id] = words
