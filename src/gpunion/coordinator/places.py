"""The places for checkpoints that a campus has, and which of them a job's are kept in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpunion.coordinator.problems import ApiError
from gpunion.domain.place import CAMPUS, Place, PlaceKind, place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CampusPlaces:
    """`known` always has the campus's own vault."""

    known: Mapping[str, Place] = field(
        default_factory=lambda: {CAMPUS: Place(name=CAMPUS, kind=PlaceKind.CAMPUS)}
    )
    usual: str = CAMPUS

    def choose(self, asked: str | None) -> tuple[str, ...]:
        """As a job's specification has it: nothing stands for the campus's own vault."""
        name = self.usual if asked is None else asked
        if name not in self.known:
            raise ApiError(
                422,
                "unknown_place",
                f"no place for checkpoints is called {name!r}; there are {', '.join(sorted(self.known))}",
                "choose one of them, or leave it out",
            )
        return () if self.known[name].kind is PlaceKind.CAMPUS else (name,)

    def of(self, names: tuple[str, ...]) -> tuple[Place, ...]:
        """Those of a job. One that was taken out of the configuration since is left out."""
        return tuple(self.known[name] for name in names or (CAMPUS,) if name in self.known)


def places_from(tables: Any, usual: str) -> CampusPlaces:
    """ValueError says what is wrong."""
    if not isinstance(tables, Mapping):
        raise ValueError("places are written as [places.NAME] sections")
    known = dict(CampusPlaces().known)
    for name, table in tables.items():
        known[name] = place_of(name, table)
    if known[CAMPUS].kind is not PlaceKind.CAMPUS:
        raise ValueError(f"{CAMPUS} is the campus's own vault; call another place otherwise")
    if usual not in known:
        raise ValueError(f"place: no place is called {usual!r}; there are {', '.join(sorted(known))}")
    return CampusPlaces(known=known, usual=usual)
