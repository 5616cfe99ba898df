"""The places for checkpoints that a campus has, and which of them a job's are kept in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpunion.text import counted
from gpunion.vault.locations import CAMPUS, Place, PlaceKind, place_of


class LocationRefused(Exception):
    """Why a place cannot be had, under a code that never changes, and what to do next."""

    def __init__(self, code: str, detail: str, next_step: str) -> None:
        super().__init__(detail)
        self.code = code
        self.next_step = next_step


@dataclass(frozen=True, slots=True, kw_only=True)
class CampusPlaces:
    """`known` always has the campus's own vault; the rest is in the order of the configuration. Replicas
    go to the places as they are written there, to the campus's own last."""

    known: Mapping[str, Place] = field(
        default_factory=lambda: {CAMPUS: Place(name=CAMPUS, kind=PlaceKind.CAMPUS)}
    )
    usual: str = CAMPUS
    replicas: int = 1

    def choose(self, asked: str | None, replicas: int | None) -> tuple[str, ...]:
        """As a job's specification has it: nothing stands for the campus's own vault alone."""
        name = self.usual if asked is None else asked
        if name not in self.known:
            raise LocationRefused(
                "unknown_place",
                f"no place for checkpoints is called {name!r}; there are {', '.join(sorted(self.known))}",
                "choose one of them, or leave it out",
            )
        first = self._real(name)
        others = [self._real(other) for other in self.known if self._real(other) != first]
        chosen = (first, *dict.fromkeys(sorted(others, key=lambda other: other == CAMPUS)))
        count = self.replicas if replicas is None else replicas
        if count > len(chosen):
            raise LocationRefused(
                "too_few_places",
                f"{count} replicas are asked for, and the campus has {counted(len(chosen), 'place')}: "
                f"{', '.join(chosen)}",
                "ask for fewer, or have the operator name another place in the coordinator's settings",
            )
        return () if chosen[:count] == (CAMPUS,) else chosen[:count]

    def _real(self, name: str) -> str:
        """Other names of the campus's own vault are that."""
        return CAMPUS if self.known[name].kind is PlaceKind.CAMPUS else name


def places_from(tables: Any, usual: str, replicas: int = 1) -> CampusPlaces:
    """ValueError says what is wrong."""
    if not isinstance(tables, Mapping):
        raise ValueError("places are written as [places.NAME] sections")
    known = dict(CampusPlaces().known)
    for name, table in tables.items():
        known[name] = place_of(name, table)
    _refuse_one_disk_twice(known)
    if known[CAMPUS].kind is not PlaceKind.CAMPUS:
        raise ValueError(f"{CAMPUS} is the campus's own vault; call another place otherwise")
    if usual not in known:
        raise ValueError(f"place: no place is called {usual!r}; there are {', '.join(sorted(known))}")
    kinds = [place for place in known.values() if place.kind is not PlaceKind.CAMPUS]
    if not 1 <= replicas <= len(kinds) + 1:
        raise ValueError(f"replicas: {replicas} are asked for, and there are {len(kinds) + 1} places")
    return CampusPlaces(known=known, usual=usual, replicas=replicas)


def _refuse_one_disk_twice(known: Mapping[str, Place]) -> None:
    """A machine keeps one folder: copies in two places there would be one."""
    kept: dict[str, str] = {}
    for place in known.values():
        if place.kind is PlaceKind.NODE and (other := kept.setdefault(place.node, place.name)) != place.name:
            raise ValueError(
                f"{other} and {place.name} are both on the disk of {place.node}; leave one of them out"
            )
