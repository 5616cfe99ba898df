"""How much room is left where checkpoints are kept: of the folders, which the coordinator sees itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from gpunion.coordinator.asking import Ask
from gpunion.coordinator.locations.configured import CampusPlaces
from gpunion.coordinator.locations.marks import PlaceMarks
from gpunion.coordinator.locations.node_disks import Keepers
from gpunion.text import size_in_words
from gpunion.vault.manifest import VaultFault

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


LOOK_EVERY_S = 60.0

log = structlog.get_logger("gpunion.coordinator")


class Locations(Protocol):
    """All that is known of where checkpoints are kept."""

    @property
    def places(self) -> CampusPlaces: ...

    @property
    def keepers(self) -> Keepers: ...

    @property
    def marks(self) -> PlaceMarks: ...

    @property
    def space(self) -> PlaceSpace: ...


async def troubles_of(campus: Locations, names: Iterable[str]) -> dict[str, str]:
    """By the names of those that are of no use now."""
    wanted = [name for name in names if name in campus.places.known]
    kept = campus.keepers.troubles(campus.places.known[name] for name in wanted)
    return {**await campus.marks.troubles(wanted), **kept}


async def low_on_room(campus: Locations, names: Iterable[str]) -> dict[str, str]:
    """By the names of those that have too little of it."""
    left = await campus.space.left(names)
    found = {name: campus.space.why_low(name, space) for name, space in left.items()}
    return {name: words for name, words in found.items() if words}


async def wrong_with(campus: Locations, names: Iterable[str]) -> dict[str, str]:
    """Both, as a job's user would want to hear it."""
    asked = list(names)
    return {**await low_on_room(campus, asked), **await troubles_of(campus, asked)}


async def keep_watching(campus: Locations, every_s: float = LOOK_EVERY_S) -> None:
    """A log that says nothing of a vault that is gone would say that all is well."""
    away, low = Told("place_not_there"), Told("place_nearly_full")
    while True:
        names = list(campus.places.known)
        away.tell(await troubles_of(campus, names))
        low.tell(await low_on_room(campus, names))
        await asyncio.sleep(every_s)


class Told:
    """Each trouble once, and that it is over. How many bytes are left changes all the time: no news."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._known: set[str] = set()

    def tell(self, troubles: Mapping[str, str]) -> None:
        for name in sorted(troubles.keys() - self._known):
            log.warning(self._event, place=name, trouble=troubles[name])
        for name in sorted(self._known - troubles.keys()):
            log.info(f"{self._event}_is_over", place=name)
        self._known = set(troubles)
