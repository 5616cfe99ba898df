"""How far the saves of this machine's guests are, for people to see.

That there is one, and whether its program has written it, the engine knows. What the hands do for it is noted
on a board beside: it is worth nothing after a restart, and no decision depends on it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.guest import Guest
from gpunion.domain.protocol.frames import Finishing, SaveNote, SaveStage


@dataclass(frozen=True, slots=True)
class _Words:
    checkpoint_id: CheckpointId
    stage: SaveStage
    done_bytes: int = 0
    total_bytes: int | None = None
    trouble: str = ""  # why it was not taken so far
    detail: str = ""


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
            words = _Words(checkpoint_id, SaveStage.SENDING, done_bytes, total_bytes)
            with self._lock:
                former = self._said.get(run_id)
                if former is not None and former.trouble and former.checkpoint_id == checkpoint_id:
                    # A place may take most of it and still be full in the end.
                    words = replace(words, trouble=former.trouble, detail=former.detail)
                self._said[run_id] = words

        return told

    def not_taken(self, run_id: RunId, checkpoint_id: CheckpointId, trouble: str, detail: str) -> None:
        """It is tried again."""
        self._put(run_id, _Words(checkpoint_id, SaveStage.WRITTEN, trouble=trouble, detail=detail))

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

    def finishing(self, guests: Iterable[Guest]) -> tuple[Finishing, ...]:
        """Guests whose program has ended, and what keeps what they made from being taken."""
        with self._lock:
            said = dict(self._said)
        nothing = _Words(CheckpointId(""), SaveStage.WRITTEN)
        sending = [(guest.run_id, said.get(guest.run_id, nothing)) for guest in guests if guest.sends_output]
        return tuple(
            Finishing(run_id=id, trouble=words.trouble, detail=words.detail) for id, words in sending
        )

    def _put(self, run_id: RunId, words: _Words) -> None:
        with self._lock:
            self._said[run_id] = words
