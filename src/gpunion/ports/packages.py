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
    """They could not be installed; in words for the job's user, with what the installer said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    lockfile: Lockfile
    folders: tuple[Path, ...]  # of wheels, where they are on this machine


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

    def install(self, key: str, wish: Wish, cancelled: Callable[[], bool]) -> None:
        """All or nothing. PackagesFault where not; `cancelled` ends it within a second."""
        ...

    def trim(self, keep: Collection[str]) -> None:
        """Forget what was not used for longest, until the rest fits. Those in `keep` stay."""
        ...
