"""Where checkpoints can be kept: for people who choose, and for nodes that find out which they reach."""

from __future__ import annotations

from fastapi import APIRouter

from gpunion.coordinator.routes.access import Anybody, TheCampus
from gpunion.domain.node import NodePhase
from gpunion.domain.place import PlaceKind, table_of
from gpunion.wire.v1.places import PlaceList, PlaceOut

router = APIRouter(tags=["places"])


@router.get("/places")
async def places(campus: TheCampus, _caller: Anybody) -> PlaceList:
    """No secret is among the settings: `credentials` says where each machine looks for its own."""
    return PlaceList(
        usual=campus.places.usual,
        places=[
            PlaceOut(
                name=place.name,
                kind=place.kind.value,
                where=place.describe(),
                settings=table_of(place),
                reached_by=sorted(
                    node.id
                    for node in campus.state.nodes.values()
                    if node.phase is not NodePhase.LEFT
                    and (place.kind is PlaceKind.CAMPUS or place.name in node.facts.places)
                ),
            )
            for place in sorted(campus.places.known.values(), key=lambda place: place.name)
        ],
    )
