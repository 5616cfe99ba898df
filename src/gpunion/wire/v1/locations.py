"""Places for checkpoints as they are shown."""

from __future__ import annotations

from gpunion.wire.v1.strict import Answer


class PlaceOut(Answer):
    name: str
    kind: str
    where: str
    settings: dict[str, str]
    free_bytes: int | None  # of a folder that the coordinator sees
    low: str  # what little room there is means, and what to do about it
    trouble: str  # why the coordinator does not use it now, where it is a folder; else nothing
    reached_by: list[str]  # nodes, as they say themselves


class PlaceList(Answer):
    usual: str
    places: list[PlaceOut]
