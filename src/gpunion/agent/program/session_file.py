"""What a session's program says of itself, and how much of it is believed: people are shown it, nothing more
than the session's own end is decided by it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpunion.agent.dependencies import ControlFiles
from gpunion.agent.run_records.notes import RunNote
from gpunion.agent.sessions.gate import StreamGate
from gpunion.domain.ids import RunId
from gpunion.domain.protocol.frames import Missing, SessionNote
from gpunion.limits import MISSING_MAX, MOMENT_MAX_S, NUMBER_MAX, finite, readable
from gpunion.ports.runtime import RuntimeFault

SESSION_FILE, RESTORED_FILE = "session.json", "restored.json"
NAME_MAX_CHARS, WHY_MAX_CHARS = 80, 160
# Of all sessions of a machine together, so that a heartbeat stays a small frame.
MISSING_OF_ALL_MAX = 10 * MISSING_MAX
LEVELS = ("variables", "files")
RESTORED = ("whole", *LEVELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    said: dict[str, object]
    since_s: float


class SessionNotes:
    """Read with every heartbeat. How long nobody has worked counts on from when it was said last."""

    def __init__(
        self,
        control: ControlFiles,
        gate: StreamGate,
        now_s: Callable[[], float],
        gpus_work: Callable[[tuple[int, ...]], bool] = lambda indices: False,
    ) -> None:
        """`gpus_work`: what a guest says of its idleness does not count while its GPUs are busy."""
        self._gpus_work = gpus_work
        self._worked_s: dict[RunId, float] = {}
        self._control = control
        self._gate = gate
        self._now_s = now_s
        self._seen: dict[RunId, _Seen] = {}

    def read(self, notes: Iterable[RunNote]) -> tuple[SessionNote, ...]:
        """Of those that are sessions. Reads small files: for a thread."""
        sessions = [note for note in notes if note.session]
        self._worked_s = {id: at_s for id, at_s in self._worked_s.items() if id in self._seen}
        self._seen = {note.run_id: seen for note in sessions if (seen := self._seen.get(note.run_id))}
        left, found = MISSING_OF_ALL_MAX, list[SessionNote]()
        for note in sessions:
            said = self._said(note)
            said = replace(said, missing=said.missing[:left])
            left -= len(said.missing)
            said = replace(said, unsaved=said.unsaved[:left])
            left -= len(said.unsaved)
            found.append(said)
        return tuple(found)

    def _said(self, note: RunNote) -> SessionNote:
        said = self._control.read_json(note.paths.control_dir, SESSION_FILE)
        now_s, streams = self._now_s(), self._gate.leading_to(note.run_id)
        if said is None:
            return SessionNote(run_id=note.run_id, streams=streams)
        seen = self._seen.get(note.run_id)
        if seen is None or seen.said != said:
            seen = self._seen[note.run_id] = _Seen(said=said, since_s=now_s)
        since_s = now_s - seen.since_s
        saved_ago_s = _number(said.get("saved_s_ago"), MOMENT_MAX_S)
        saved_bytes = _number(said.get("saved_bytes"), NUMBER_MAX)
        return SessionNote(
            run_id=note.run_id,
            ready=said.get("ready") is True,
            idle_s=self._idle_s(note, now_s, (_number(said.get("idle_s"), MOMENT_MAX_S) or 0.0) + since_s),
            kernels=int(_number(said.get("kernels"), 10_000) or 0),
            level=_one_of(said.get("level"), LEVELS),
            restored=_one_of(said.get("restored"), RESTORED),
            saved_ago_s=None if saved_ago_s is None else min(MOMENT_MAX_S, saved_ago_s + since_s),
            saved_bytes=None if saved_bytes is None else int(saved_bytes),
            missing=_missing(said.get("missing")),
            unsaved=_missing(said.get("unsaved")),
            whole_why_not=_words(said.get("whole_why_not"), WHY_MAX_CHARS),
            no_ssh=_words(said.get("ssh"), WHY_MAX_CHARS),
            streams=streams,
        )

    def _idle_s(self, note: RunNote, now_s: float, said_s: float) -> float:
        if self._gpus_work(note.gpu_indices):
            self._worked_s[note.run_id] = now_s
        worked_s = self._worked_s.get(note.run_id)
        return min(MOMENT_MAX_S, said_s if worked_s is None else min(said_s, now_s - worked_s))


def tell_restored_whole(control: ControlFiles, directory: Path) -> None:
    """A guest that was brought back as it was notices nothing of it."""
    with contextlib.suppress(RuntimeFault):  # then people are told of an earlier move
        control.write_json(directory, RESTORED_FILE, {"level": "whole"})


def _missing(value: object) -> tuple[Missing, ...]:
    rows = value[:MISSING_MAX] if isinstance(value, list) else []
    return tuple(
        Missing(name=name, why=_words(row.get("why"), WHY_MAX_CHARS))
        for row in rows
        if isinstance(row, dict) and (name := _words(row.get("name"), NAME_MAX_CHARS))
    )


def _number(value: Any, most: float) -> float | None:
    number = finite(value)
    return None if number is None else min(most, max(0.0, number))


def _one_of(value: object, words: tuple[str, ...]) -> str:
    return value if isinstance(value, str) and value in words else ""


def _words(value: object, most_chars: int) -> str:
    return readable(value[: 2 * most_chars])[:most_chars].rstrip() if isinstance(value, str) else ""
