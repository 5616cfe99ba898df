"""Saves of a session: folders step-<n>, each with the variables of all kernels and what it keeps of its own.

The number counts saves. Nothing is written twice for a request that finds nothing changed.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.sdk.job.folders import Folders
from gpunion.sdk.session.lab import Lab, NoLab
from gpunion.sdk.session.places import Places
from gpunion.sdk.session.variables.snapshot import ALL, STOOD_IN, read_about, stand_in

KEPT_FOLDER = "kept"
KERNELS_FOLDER, NOTEBOOKS_FILE = "kernels", "notebooks.json"
# Of the time that is left, what a cell may go on for until its variables are taken beside it.
BUSY_SHARE = 0.5
# Beyond that: a control channel of a kernel may take five seconds of its own to be given up.
ANSWER_SLACK_S = 7.0
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
        self._step = self._given_up = -1  # of the save that began last, and of one that was given up
        self._lock = threading.Lock()
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

    def as_it_is(self) -> Outcome | None:
        """The newest save: of a notebook whose server does not answer yet there is no newer state, and a save
        without variables would count as newer than those it begins with."""
        step = self._folders.newest()
        return None if step is None else self._outcome(step, _told_in(self._folders.path(step)), False, "")

    def save(self, lab: Lab | None, state: Mapping[str, Any], limit_s: float) -> Outcome:
        """Blocks for `limit_s` at most, a little more on a slow disk. OSError: there is no new save."""
        if self._last is not None and not self.changed(state) and self._folders.has(self._last.step):
            return self._last
        before = self._folders.newest()
        step = self._next_step(before)
        older = None if before is None else self._folders.path(before)
        fresh = self._folders.open(step)
        try:
            shutil.copytree(self._places.kept, fresh / KEPT_FOLDER, symlinks=True)
            told, trouble = self._save_variables(lab, fresh, older, limit_s)
            if step == self._given_up:
                raise OSError("another save mattered more")
            self._folders.close(step)
        finally:
            self._folders.give_up(step)
        unsaved = tuple((str(one["name"]), str(one["why"])) for one in told.get("unsaved", ()))
        outcome = self._outcome(step, unsaved, lab is not None and not trouble, trouble)
        if step == self._step:  # else one that began later has been told already
            stale = any(why.startswith(STOOD_IN) for _, why in unsaved)
            self._turns = None if trouble or stale else state.get("turns")
            self._last = outcome
        return outcome

    def give_up(self) -> None:
        """The save that is under way, for one that matters more: the kernel has nowhere left to write."""
        self._given_up = self._step
        self._folders.give_up(self._step)

    def _next_step(self, before: int | None) -> int:
        """Two at a time would otherwise write into one folder."""
        with self._lock:
            self._step = 1 + max(self._step, -1 if before is None else before)
            return self._step

    def _outcome(
        self, step: int, unsaved: tuple[tuple[str, str], ...], with_variables: bool, trouble: str
    ) -> Outcome:
        path, files = self._folders.path(step), self._folders.files(step)
        return Outcome(
            step=step,
            files=files if sum(map(len, files)) <= NAMES_MAX_CHARS else None,
            size_bytes=sum(file.stat().st_size for file in (path / KERNELS_FOLDER).rglob("*group*")),
            with_variables=with_variables,
            unsaved=unsaved,
            trouble=trouble,
        )

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
            took_s = time.monotonic() - began_s
            why = f"JupyterLab did not save them in {took_s:.0f} s: {fault}"
            self._take_older(older, into, why)
            return {"unsaved": [{"name": ALL, "why": why}]}, why

    def _take_older(self, older: Path | None, into: Path, why: str) -> None:
        """A server that does not answer at all: what it saved before is better than nothing."""
        if older is None:
            return
        for kernel in (older / KERNELS_FOLDER).glob("*"):
            with contextlib.suppress(OSError):
                stand_in(kernel, into / KERNELS_FOLDER / kernel.name, why)
        with contextlib.suppress(OSError):
            shutil.copy2(older / NOTEBOOKS_FILE, into / NOTEBOOKS_FILE)

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


def _told_in(step: Path) -> tuple[tuple[str, str], ...]:
    """What was not saved, as a save says of itself."""
    abouts = [read_about(kernel) for kernel in sorted((step / KERNELS_FOLDER).glob("*"))]
    return tuple((one.name, one.why) for about in abouts if about is not None for one in about.unsaved)
