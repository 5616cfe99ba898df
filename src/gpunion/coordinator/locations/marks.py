"""Which mark each folder for checkpoints is known by, so that an empty mount point is not taken for it.

A mark is made where a folder is met for the first time, and then kept in the coordinator's database. A
folder without its known mark is not used until the mark is back, or until somebody says that it was emptied
on purpose.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from gpunion.coordinator.asking import Ask
from gpunion.coordinator.locations.configured import LocationRefused
from gpunion.ports.database import Marks
from gpunion.vault.locations import Place
from gpunion.vault.manifest import VaultFault

# Beside the marks of folders, which begin with /.
CAMPUS_ID = "campus"


class Claim(Protocol):
    """Who uses a folder: we, where nobody did, or `anew`. Nothing where that cannot be told. May hang."""

    def __call__(self, directory: str, who: str, *, anew: bool) -> str: ...


def nobody_else(directory: str, who: str, *, anew: bool) -> str:
    return who


class PlaceMarks:
    """`make` gives the mark of a folder, a new one where there is none, or nothing where the folder cannot be
    written. `why_not` says what is wrong with a place as it is now, or nothing. Both may hang, as folders do.
    """

    def __init__(
        self,
        store: Marks,
        places: Iterable[Place],
        *,
        make: Callable[[str], str],
        why_not: Callable[[Place], str],
        ask: Ask,
        claim: Claim = nobody_else,
    ) -> None:
        """`places` are those that have a directory."""
        self._claim = claim
        self._campus_id = ""
        self._store = store
        self._places = {place.name: place for place in places}
        self._make = make
        self._why_not = why_not
        self._ask = ask
        self._known: dict[str, str] = {}  # by directory: a place that moves is another one
        self._learning = asyncio.Lock()

    async def load(self) -> None:
        self._known = dict(await self._store.place_marks())
        self._campus_id = self._known.get(CAMPUS_ID, "")
        if not self._campus_id:
            self._campus_id = secrets.token_hex(8)
            await self._store.put_place_mark(CAMPUS_ID, self._campus_id)
        await self.learn()

    async def learn(self) -> None:
        """Of folders that nobody has met yet; one that cannot be met now is met later."""
        async with self._learning:
            unknown = [place for place in self._places.values() if place.directory not in self._known]
            await asyncio.gather(*(self._take_as_it_is(place) for place in unknown))

    def folder(self, name: str) -> Place:
        """Where it is, and its mark; none where nobody has met it."""
        place = self._places[name]
        return replace(place, mark=self._known.get(place.directory, ""))

    def marked(self, place: Place) -> Place:
        """As it is told to others: of a place that is no folder there is nothing to add."""
        return replace(place, mark=self.folder(place.name).mark) if place.name in self._places else place

    async def troubles(self, names: Iterable[str]) -> dict[str, str]:
        """What is wrong with those of the places that are folders, each in words for people."""
        places = [self._places[name] for name in names if name in self._places]
        answers = await asyncio.gather(*(asyncio.to_thread(self._trouble, place) for place in places))
        return {place.name: why for place, why in zip(places, answers, strict=True) if why}

    async def accept(self, name: str) -> None:
        """As it is now, whatever was known of it."""
        place = self._places.get(name)
        if place is None:
            detail = f"there is no place {name[:64]} that is a folder"
            raise LocationRefused("not_found", detail, "gpunion places lists the places there are")
        if not await self._take_as_it_is(place, anew=True):
            detail = f"{place.directory} cannot be written by the coordinator, or does not answer"
            next_step = "mount it where the coordinator runs, then ask again"
            raise LocationRefused("place_not_reached", detail, next_step)

    async def _take_as_it_is(self, place: Place, *, anew: bool = False) -> str:
        def take() -> str:
            mark = self._make(place.directory)
            if mark:
                self._claim(place.directory, self._campus_id, anew=anew)
            return mark

        try:
            mark = await asyncio.to_thread(self._ask, place.name, take)
        except (VaultFault, OSError):
            return ""
        if mark:
            await self._store.put_place_mark(place.directory, mark)
            self._known[place.directory] = mark
        return mark

    def _trouble(self, place: Place) -> str:
        marked = self.folder(place.name)
        if not marked.mark:
            return (
                f"the coordinator could never write {place.directory}, so nobody can tell it from another. "
                "Next: mount it where the coordinator runs, writable for it"
            )
        try:
            return self._ask(place.name, lambda: self._why_not(marked) or self._shared_by(marked))
        except (VaultFault, OSError) as trouble:
            return str(trouble)

    def _shared_by(self, place: Place) -> str:
        """By another name of it here, or by another campus: it is used all the same, and no bytes mix."""
        names = [name for name in self._places if name != place.name]
        same = [name for name in names if self.folder(name).mark == place.mark]
        if same:
            return (
                f"{place.directory} is the same folder as the place {same[0]}: a copy in both is one. "
                "Next: name another folder, or leave one of them out"
            )
        user = self._claim(place.directory, self._campus_id, anew=False)
        if user not in ("", self._campus_id):
            return (
                f"{place.directory} is used by the coordinator of another campus too, or by one whose "
                "database was lost. Next: give each campus a folder of its own; if the other one is gone, "
                f"gpunion places accept {place.name}"
            )
        return ""
