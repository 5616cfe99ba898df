"""Saves of a session: folders step-<n>, each with the variables of all kernels and what it keeps of its own.

The number counts saves. Nothing is written twice for a request that finds nothing changed.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.sdk.job.folders import Folders
from gpunion.sdk.session.lab import Lab, NoLab
from gpunion.sdk.session.places import Places

KEPT_FOLDER = "kept"
# Of the time that is left, what a cell may go on for until its variables are taken beside it.
BUSY_SHARE = 0.5
ANSWER_SLACK_S = 3.0
NAMES_MAX_CHARS = 32 * 1024  # of files, in one message


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    step: int
    files: list[str] | None  # None: more than a message takes, so all of the directory
    size_bytes: int
    with_variables: bool
    unsaved: tuple[tuple[str, str], ...]
    trouble: str = ""


class Saves:
    def __init__(self, places: Places) -> None:
        self._places = places
        self._folders = Folders(places.checkpoints)
        self._turns: Mapping[str, object] | None = None  # of the kernels, when they were saved last
        self._last: Outcome | None = None
        newest = self._folders.newest()
        if newest is not None:
            self._folders.trust(newest)

    def newest(self) -> Path | None:
        """What a server begins with."""
        step = self._folders.newest()
        return None if step is None else self._folders.path(step)

    def bring_kept_back(self) -> None:
        newest = self.newest()
        if newest is not None and (newest / KEPT_FOLDER).is_dir():
            shutil.copytree(newest / KEPT_FOLDER, self._places.kept, symlinks=True, dirs_exist_ok=True)

    def changed(self, state: Mapping[str, Any]) -> bool:
        return state.get("turns") != self._turns

    def save(self, lab: Lab | None, state: Mapping[str, Any], limit_s: float) -> Outcome:
        """Blocks for `limit_s` at most, a little more on a slow disk. OSError: there is no new save."""
        if self._last is not None and not self.changed(state) and self._folders.has(self._last.step):
            return self._last
        before = self._folders.newest()
        step = 0 if before is None else before + 1
        older = None if before is None else self._folders.path(before)
        fresh = self._folders.open(step)
        try:
            shutil.copytree(self._places.kept, fresh / KEPT_FOLDER, symlinks=True)
            told, trouble = self._save_variables(lab, fresh, older, limit_s)
            self._folders.close(step)
        finally:
            self._folders.give_up(step)
        self._turns = None if trouble else state.get("turns")
        path, files = self._folders.path(step), self._folders.files(step)
        self._last = Outcome(
            step=step,
            files=files if sum(map(len, files)) <= NAMES_MAX_CHARS else None,
            size_bytes=sum(file.stat().st_size for file in (path / "kernels").rglob("*group*")),
            with_variables=lab is not None and not trouble,
            unsaved=tuple((str(one["name"]), str(one["why"])) for one in told.get("unsaved", ())),
            trouble=trouble,
        )
        return self._last

    def _save_variables(
        self, lab: Lab | None, into: Path, older: Path | None, limit_s: float
    ) -> tuple[dict[str, Any], str]:
        if lab is None:
            return {}, ""
        body = {
            "into": str(into),
            "older": "" if older is None else str(older),
            "wait_s": BUSY_SHARE * limit_s,
            "limit_s": limit_s,
        }
        began_s = time.monotonic()
        try:
            return lab.ask("POST", "/gpunion/save", body, limit_s + ANSWER_SLACK_S), ""
        except NoLab as fault:
            self._take_older(older, into)
            took_s = time.monotonic() - began_s
            why = f"JupyterLab did not save them in {took_s:.0f} s: {fault}"
            return {"unsaved": [{"name": "all variables", "why": why}]}, why

    def _take_older(self, older: Path | None, into: Path) -> None:
        """A server that does not answer at all: what it saved before is better than nothing."""
        if older is None:
            return
        for name in ("kernels", "notebooks.json"):
            place = into / name
            with contextlib.suppress(OSError):
                shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
                source = older / name
                copy = shutil.copytree if source.is_dir() else shutil.copy2
                copy(source, place)

    def leave_in(self, place: Path) -> None:
        """The newest save, for a session that begins with these files one day."""
        newest = self.newest()
        if newest is None:
            return
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(newest, place, symlinks=True, ignore=shutil.ignore_patterns(KEPT_FOLDER))

    def tidy_up(self) -> None:
        """The save before the newest may still be on its way to the vault."""
        self._folders.drop_all_but_two()
