"""What the child said, checked and given the names the rest of the agent uses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from gpunion.domain.resources import Gpu
from gpunion.domain.speeds import speed_of
from gpunion.ports.gpus import GpuProcess, GpuSight

# The makers' names say whose card it is before they say which.
PREFIXES = ("NVIDIA ", "Tesla ", "GeForce ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU, or one slice of one, as a single answer of the child tells it."""

    uuid: str
    model: str
    memory_bytes: int
    speed: float
    compute_capability: str
    nodes: tuple[str, ...]
    sight: GpuSight  # with an index that means nothing yet

    def lent(self, index: int, speed: float | None) -> Gpu:
        return Gpu(
            index=index,
            model=self.model,
            memory_bytes=self.memory_bytes,
            speed=self.speed if speed is None else speed,
            declared=False,
        )


def cards(readings: Any) -> list[Card]:
    """Those that answered, in the driver's order. Without a name a card cannot be known again."""
    rows = readings if isinstance(readings, list) else []
    return [_card(row) for row in rows if isinstance(row, dict) and row.get("uuid") and not row.get("gone")]


def remembered(rows: Any) -> list[Card]:
    """Cards as they were written down, of which nothing is seen yet."""
    found = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and row.get("uuid"):
            card = _card(row)
            found.append(replace(card, speed=_number(row.get("speed")) or card.speed))
    return found


def shown_model(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name.strip() or "unknown"


def _card(row: dict[str, Any]) -> Card:
    model = shown_model(str(row.get("model") or ""))
    memory_bytes = _whole(row.get("memory_bytes")) or 0
    return Card(
        uuid=str(row["uuid"]),
        model=model,
        memory_bytes=memory_bytes,
        speed=speed_of(model, memory_bytes, _whole(row.get("card_bytes")) or 0),
        compute_capability=str(row.get("compute_capability") or ""),
        nodes=tuple(str(node) for node in row.get("nodes") or ()),
        sight=_sight(row),
    )


def _sight(row: dict[str, Any]) -> GpuSight:
    processes = row.get("processes")
    return GpuSight(
        index=-1,
        uuid=str(row["uuid"]),
        memory_used_bytes=_whole(row.get("memory_used_bytes")),
        utilisation=_number(row.get("utilisation")),
        temperature_c=_number(row.get("temperature_c")),
        power_w=_number(row.get("power_w")),
        ecc_uncorrected=_whole(row.get("ecc_uncorrected")),
        xids=tuple(xid for value in row.get("xids") or () if (xid := _whole(value)) is not None),
        processes=None
        if processes is None
        else tuple(GpuProcess(pid=int(pid), memory_bytes=_whole(size)) for pid, size in processes),
    )


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
