"""The port to where the coordinator keeps the directories that travel with jobs.

A directory is a list of files named by its hash, and blocks named by theirs. A list is kept only when all of
its blocks are: then it is there as a whole, durably, until nobody needs it. Calls block; they are made from
threads, any number at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import BinaryIO, Protocol


class TreesFault(Exception):
    """It could not be done; nothing kept was lost. Temporary: the same call may work later."""

    temporary = True


class TreesFull(TreesFault):
    """No room left. What was kept stays; more room, or less to keep, and the same call works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What came of an offered list: kept where nothing is missing."""

    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    trees: int
    blocks: int
    stored_bytes: int


class Trees(Protocol):
    def offer(self, digest: str, listing: bytes | BinaryIO) -> Offer:
        """Keep the list if its blocks are here, else say which are not. BadTree where it is no list.

        Blocks that are here are safe from `sweep` for a day, so that an upload can take its time.
        """
        ...

    def put(self, name: str, data: bytes) -> int:
        """Keep a block; returns the bytes that took, 0 where it was there."""
        ...

    def listing(self, digest: str) -> bytes | None:
        """The list as it was offered; None where it is not kept."""
        ...

    def read(self, name: str) -> bytes | None:
        """A block, verified; None where it is not here, or damaged."""
        ...

    def claim(self, digest: str) -> bool:
        """Whether it is kept, and if so that it stays until whoever asked has had time to say why."""
        ...

    def sweep(self, needed: Collection[str]) -> Swept:
        """Forget lists that are not needed and were not asked for lately, then blocks that no list names."""
        ...
