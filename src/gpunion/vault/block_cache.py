"""The port to what a node has of jobs' directories: blocks it fetched before, and trees made from them.

A cache: anything in it may be gone tomorrow, and whatever is read from it is verified. Calls block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from gpunion.vault.tree import FileEntry


class CacheFault(Exception):
    """This machine's disk would not do it. The message is for the job's user."""


class BlockMissing(CacheFault):
    """A block is not here, or no longer what its name says: fetch it again."""


class BlockCache(Protocol):
    def missing(self, names: Collection[str]) -> set[str]:
        """Those that have to be fetched. The others become young."""
        ...

    def put(self, name: str, data: bytes) -> None: ...

    def read(self, name: str) -> bytes:
        """Verified, or BlockMissing."""
        ...

    def materialise(self, files: Iterable[FileEntry], into: Path) -> None:
        """Make the tree at `into`, whole or not at all. Links last, and only such as stay inside."""
        ...

    def using(self) -> AbstractContextManager[None]:
        """While anybody is in it nothing goes; then what was not used for longest, until the rest fits."""
        ...
