"""What the guest tells of its session: one small file, replaced as a whole."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpunion.sdk.job.messages import write

FILE = "session.json"
EVERY_S = 5.0
MESSAGE_MAX_BYTES = 60 * 1024  # the agent reads no more than 64 KiB
LACKING_MAX, NAME_MAX_CHARS, WHY_MAX_CHARS = 100, 80, 160

Lacking = dict[str, str]  # name and why


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """`missing`: what this run lacks since it came back. `unsaved`: what a move would cost now."""

    ready: bool = False
    active_at: float = field(default_factory=time.time)
    kernels: int = 0
    busy: int = 0  # of them, those with a cell that runs
    level: str = "files"
    saved_at: float | None = None
    saved_bytes: int = 0
    saving: bool = False
    missing: tuple[tuple[str, str], ...] = ()
    unsaved: tuple[tuple[str, str], ...] = ()
    restored: str = ""
    ssh: str = ""
    whole_why_not: str = ""


class Teller:
    def __init__(self, control: Path) -> None:
        self._control = control
        self._state = State()
        self._told: State | None = None
        self._told_s = float("-inf")
        self._lock = threading.Lock()  # a save runs in a thread of its own

    @property
    def state(self) -> State:
        return self._state

    def change(self, **changes: object) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)  # type: ignore[arg-type]

    def tell(self) -> None:
        """When something changed, and now and then: ages are told, and they grow."""
        now_s = time.monotonic()
        quiet = self._told is not None and replace(self._told, active_at=0.0) == replace(
            self._state, active_at=0.0
        )
        if quiet and now_s < self._told_s + EVERY_S:
            return
        self._told, self._told_s = self._state, now_s
        with contextlib.suppress(OSError):  # a full disk: it is told when there is room again
            write(self._control / FILE, _message(self._state))


def _message(state: State) -> dict[str, object]:
    now = time.time()
    message: dict[str, object] = {
        "ready": state.ready,
        "idle_s": round(max(0.0, now - state.active_at), 1),
        "kernels": state.kernels,
        "busy": state.busy,
        "level": state.level,
        "saved_bytes": state.saved_bytes,
        "saving": state.saving,
        "missing": _bounded(state.missing),
        "unsaved": _bounded(state.unsaved),
        "restored": state.restored,
        "ssh": state.ssh[:WHY_MAX_CHARS],
        "whole_why_not": state.whole_why_not[:WHY_MAX_CHARS],
    }
    if state.saved_at is not None:
        message["saved_s_ago"] = round(max(0.0, now - state.saved_at), 1)
    most = LACKING_MAX
    while len(json.dumps(message)) > MESSAGE_MAX_BYTES and most > 1:  # a letter may take six bytes
        most //= 2
        message |= {"missing": _bounded(state.missing, most), "unsaved": _bounded(state.unsaved, most)}
    return message


def _bounded(lacking: Sequence[tuple[str, str]], most: int = LACKING_MAX) -> list[Lacking]:
    told = [{"name": name[:NAME_MAX_CHARS], "why": why[:WHY_MAX_CHARS]} for name, why in lacking]
    if len(told) <= most:
        return told
    more = {"name": f"{len(told) - most + 1} more", "why": "the list is cut off here"}
    return [*told[: most - 1], more]
