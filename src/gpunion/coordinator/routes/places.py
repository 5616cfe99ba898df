"""Where checkpoints can be kept: for people who choose, and for nodes that find out which they reach."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from gpunion.coordinator.campus import Campus
from gpunion.coordinator.routes.access import Admin, Anybody, TheCampus
from gpunion.domain.node import NodePhase
from gpunion.domain.place import Place, table_of
from gpunion.ports.store import CredentialKind
from gpunion.wire.v1.places import PlaceList, PlaceOut

router = APIRouter(tags=["places"])

PlaceName = Annotated[str, Path(max_length=128)]


@router.get("/places")
async def places(campus: TheCampus, caller: Anybody) -> PlaceList:
    """No secret is among the settings: `credentials` says where each machine looks for its own."""
    await campus.marks.learn()
    # What the coordinator does not see itself is for people; a node sees for itself.
    asked = campus.places.known if caller.kind is CredentialKind.ADMIN else ()
    troubles = await campus.marks.troubles(asked)
    return PlaceList(
        usual=campus.places.usual,
        places=[
            _place_out(campus, place, troubles.get(place.name, ""))
            for place in sorted(campus.places.known.values(), key=lambda place: place.name)
        ],
    )


@router.post("/places/{name}/accept")
async def accept_place(name: PlaceName, campus: TheCampus, _caller: Admin) -> PlaceOut:
    """Takes a folder that lacks its mark as it is now: it was emptied on purpose, or is another one."""
    await campus.marks.accept(name)
    troubles = await campus.marks.troubles([name])
    return _place_out(campus, campus.places.known[name], troubles.get(name, ""))


def _place_out(campus: Campus, place: Place, trouble: str) -> PlaceOut:
    return PlaceOut(
        name=place.name,
        kind=place.kind.value,
        where=place.describe(),
        settings=table_of(campus.marks.marked(place)),
        trouble=trouble,
        reached_by=sorted(
            node.id
            for node in campus.state.nodes.values()
            if node.phase is not NodePhase.LEFT and node.facts.reaches((place.name,))
        ),
    )
