"""The port to packages that jobs ask for: installed once a node, kept by the hash of what was asked for.

Calls block, but for `place`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpunion.domain.lockfile import Lockfile


class PackagesFault(Exception):
    """They could not be installed; in words for the job's user, with what the installer said last.

    `no_room`: on another machine they may well fit."""

    def __init__(self, words: str, *, no_room: bool = False) -> None:
        super().__init__(words)
        self.no_room = no_room


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    lockfile: Lockfile
    folders: tuple[Path, ...]  # of wheels, where they are on this machine
    label: str = ""  # kept with them, to be found again by `labelled`; "": they are nobody's to look for


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    label: str
    size_bytes: int


class Packages(Protocol):
    @property
    def base(self) -> str:
        """What they are installed for: the same packages on another base are another environment."""
        ...

    def place(self, key: str) -> Path:
        """Where they are when they are there: for Python's path."""
        ...

    def ready(self, key: str) -> bool:
        """Whether they are there. If so, they count as used just now."""
        ...

    def install(
        self, key: str, wish: Wish, cancelled: Callable[[], bool], told: Callable[[float], None]
    ) -> None:
        """All or nothing. PackagesFault where not; `cancelled` ends it within a second. `told` hears now and
        then, in any thread, how much of it is done: 0 to 1."""
        ...

    def labelled(self) -> tuple[Kept, ...]:
        """Those that are there and have a label."""
        ...

    def trim(self, keep: Collection[str]) -> None:
        """Forget what was not used for longest, until the rest fits. Those in `keep` stay."""
        ...
