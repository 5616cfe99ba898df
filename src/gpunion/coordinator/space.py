"""How much room is left where checkpoints are kept: of the folders, which the coordinator sees itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpunion.coordinator.asking import Ask
from gpunion.domain.sizes import size_in_words
from gpunion.ports.vault import VaultFault

# Of a small disk a share, of a large one as much as some saves take: there is time to do something then.
LOW_SHARE = 0.05
LOW_BYTES_MAX = 10 * 1000**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    free_bytes: int
    total_bytes: int
    kept_bytes: int = 0  # which no save may take: the coordinator itself lies on that disk too
    read_only: bool = False


class PlaceSpace:
    """`look` tells of a folder; it may hang, as folders do."""

    def __init__(self, folders: Mapping[str, str], *, look: Callable[[str], Space], ask: Ask) -> None:
        self._folders = folders
        self._look = look
        self._ask = ask

    def folder_of(self, name: str) -> str:
        """Empty where it is none that the coordinator sees."""
        return self._folders.get(name, "")

    async def left(self, names: Iterable[str]) -> dict[str, Space]:
        """Of those that are folders and answer."""
        folders = [name for name in names if name in self._folders]
        found = await asyncio.gather(*(asyncio.to_thread(self._left, name) for name in folders))
        return {name: space for name, space in zip(folders, found, strict=True) if space is not None}

    def _left(self, name: str) -> Space | None:
        try:
            return self._ask(name, lambda: self._look(self._folders[name]))
        except (VaultFault, OSError):
            return None  # what is wrong with it is told elsewhere

    def why_low(self, name: str, space: Space) -> str:
        """What follows from it, in words for people; nothing where there is enough."""
        if space.read_only:
            return (
                "it can only be read: saves go to a job's next place, or fail. "
                "Next: mount it so that it can be written"
            )
        low_bytes = min(LOW_SHARE * space.total_bytes, LOW_BYTES_MAX)
        if space.free_bytes >= max(low_bytes, space.kept_bytes):
            return ""
        full = space.free_bytes <= space.kept_bytes
        return (
            f"{'no room is' if full else 'little room is'} left ({size_in_words(space.free_bytes)} of "
            f"{size_in_words(space.total_bytes)}): saves that do not fit go to a job's next place, or fail. "
            f"Next: make room on that disk; gpunion vault ls {name} shows what lies there"
        )
