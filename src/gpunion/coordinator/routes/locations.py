"""Where checkpoints can be kept: for people who choose, and for nodes that find out which they reach."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from gpunion.coordinator.api.access import Admin, Anybody, TheCampus
from gpunion.coordinator.locations.space import Space, troubles_of
from gpunion.coordinator.services import Campus
from gpunion.domain.nodes.node import NodePhase
from gpunion.ports.database import CredentialKind
from gpunion.vault.locations import Place, PlaceKind, table_of
from gpunion.wire.v1.locations import PlaceList, PlaceOut

router = APIRouter(tags=["places"])

# What these reach, nobody knows.
OUT_OF_TOUCH = (NodePhase.LEFT, NodePhase.SILENT)
PlaceName = Annotated[str, Path(max_length=128)]


@router.get("/places")
async def places(campus: TheCampus, caller: Anybody) -> PlaceList:
    """No secret is among the settings: `credentials` says where each machine looks for its own."""
    await campus.marks.learn()
    # What the coordinator does not see itself is for people; a node sees for itself.
    asked = campus.places.known if caller.kind is CredentialKind.ADMIN else ()
    troubles, left = await troubles_of(campus, asked), await campus.space.left(asked)
    bearer = caller.name if caller.kind is CredentialKind.NODE else ""
    return PlaceList(
        usual=campus.places.usual,
        places=[
            _place_out(campus, place, troubles.get(place.name, ""), left.get(place.name), bearer)
            for place in sorted(campus.places.known.values(), key=lambda place: place.name)
        ],
    )


@router.post("/places/{name}/accept")
async def accept_place(name: PlaceName, campus: TheCampus, _caller: Admin) -> PlaceOut:
    """Takes a folder that lacks its mark as it is now: it was emptied on purpose, or is another one."""
    await campus.marks.accept(name)
    troubles, left = await troubles_of(campus, [name]), await campus.space.left([name])
    return _place_out(campus, campus.places.known[name], troubles.get(name, ""), left.get(name))


def _where(campus: Campus, place: Place) -> str:
    """The campus's own vault has no address but for who runs the coordinator: there it is a folder."""
    folder = campus.space.folder_of(place.name) if place.kind is PlaceKind.CAMPUS else ""
    return f"{folder}, {place.describe()}" if folder else place.describe()


def _place_out(campus: Campus, place: Place, trouble: str, left: Space | None, bearer: str = "") -> PlaceOut:
    """With a bearer as that machine is told, which alone can use what lets it in."""
    known = campus.keepers.told(place, bearer) if bearer else campus.keepers.shown(place)
    return PlaceOut(
        name=place.name,
        kind=place.kind.value,
        where=_where(campus, place) if not bearer else place.describe(),
        settings=table_of(campus.marks.marked(known)),
        free_bytes=None if left is None or trouble else left.free_bytes,
        low="" if left is None or trouble else campus.space.why_low(place.name, left),
        trouble=trouble,
        reached_by=sorted(
            node.id
            for node in campus.state.nodes.values()
            if node.phase not in OUT_OF_TOUCH and node.facts.reaches((place.name,))
        ),
    )
