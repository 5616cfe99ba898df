"""Directories step-<n> of saved state, each whole: written under another name, synced, renamed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

# How long the slowest of several processes may take to write its part.
PARTS_LIMIT_S = 600.0
PART_LOOK_S = 0.02


class Folders:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._trusted: list[int] = []  # saved or loaded by this very program, oldest first

    def path(self, step: int) -> Path:
        return self.root / f"step-{step}"

    def newest(self) -> int | None:
        return max(self._steps(), default=None)

    def trust(self, step: int) -> None:
        self._trusted.append(step)

    def has(self, step: int) -> bool:
        """That very state is there already, and whole."""
        return step in self._trusted

    def open(self, step: int) -> Path:
        """Where the state of a step is written. Nothing of an earlier try is left in it."""
        shutil.rmtree(self.path(step), ignore_errors=True)
        fresh = self.opened(step)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        return fresh

    def opened(self, step: int) -> Path:
        return self.root / f".saving-{step}"

    def part_is_done(self, step: int, part: int) -> None:
        """Of several processes, this one has written what it has to write."""
        sync_tree(self.opened(step))
        _mark(self.opened(step), part).touch()

    def close(self, step: int, parts: int = 1) -> None:
        """All of it is written, by this process and `parts` - 1 others: from now on it counts."""
        fresh = self.opened(step)
        until_s = time.monotonic() + PARTS_LIMIT_S
        for part in range(1, parts):
            while not _mark(fresh, part).exists():
                if time.monotonic() > until_s:
                    raise OSError(f"process {part} of {parts} did not write its part")
                time.sleep(PART_LOOK_S)
            _mark(fresh, part).unlink()
        sync_tree(fresh)
        fresh.rename(self.path(step))
        sync(self.root)
        self.trust(step)

    def give_up(self, step: int) -> None:
        shutil.rmtree(self.opened(step), ignore_errors=True)

    def keep(self, step: int, save: Callable[[Path], object]) -> None:
        """Save the state, unless that very state is there already."""
        if self.has(step):
            return
        try:
            save(self.open(step))
            self.close(step)
        finally:
            self.give_up(step)

    def files(self, step: int) -> list[str]:
        found = (Path(folder, name) for folder, _, names in os.walk(self.path(step)) for name in names)
        return sorted(path.relative_to(self.root).as_posix() for path in found)

    def drop_all_but_two(self) -> None:
        """The one before may still be on its way to the vault."""
        self._trusted = self._trusted[-2:]
        for step in self._steps():
            if step not in self._trusted:
                shutil.rmtree(self.path(step), ignore_errors=True)

    def _steps(self) -> list[int]:
        names = (path.name.removeprefix("step-") for path in self.root.glob("step-*") if path.is_dir())
        return [int(name) for name in names if name.isdecimal()]


def sync_tree(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            sync(Path(folder, name))
        sync(Path(folder))


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mark(fresh: Path, part: int) -> Path:
    return fresh.with_name(f"{fresh.name}.part-{part}")
