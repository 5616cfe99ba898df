"""What is wrong with the places for checkpoints: for who asks, and for the log of who runs the campus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import structlog

from gpunion.coordinator.campus import Campus

LOOK_EVERY_S = 60.0

log = structlog.get_logger("gpunion.coordinator")


async def troubles_of(campus: Campus, names: Iterable[str]) -> dict[str, str]:
    """By the names of those that are of no use now."""
    wanted = [name for name in names if name in campus.places.known]
    kept = campus.keepers.troubles(campus.places.known[name] for name in wanted)
    return {**await campus.marks.troubles(wanted), **kept}


async def low_on_room(campus: Campus, names: Iterable[str]) -> dict[str, str]:
    """By the names of those that have too little of it."""
    left = await campus.space.left(names)
    found = {name: campus.space.why_low(name, space) for name, space in left.items()}
    return {name: words for name, words in found.items() if words}


async def wrong_with(campus: Campus, names: Iterable[str]) -> dict[str, str]:
    """Both, as a job's user would want to hear it."""
    asked = list(names)
    return {**await low_on_room(campus, asked), **await troubles_of(campus, asked)}


async def keep_watching(campus: Campus, every_s: float = LOOK_EVERY_S) -> None:
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
