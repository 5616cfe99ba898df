"""What the child said, checked and given the names the rest of the agent uses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpunion.domain.gpu_models import speed_of
from gpunion.domain.resources import Gpu
from gpunion.domain.version_ranges import version_of
from gpunion.limits import finite
from gpunion.ports.gpus import GpuProcess, GpuSight

# The makers' names say whose card it is before they say which.
PREFIXES = ("NVIDIA ", "Tesla ", "GeForce ")
# How the driver names slices, and where in a slice's model its shape begins.
SLICE_UUID, SLICE_MARK = "MIG-", "MIG "


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU, or one slice of one, as a single answer of the child tells it."""

    uuid: str
    model: str
    memory_bytes: int
    speed: float
    compute_capability: str
    cuda: str
    driver: str
    nodes: tuple[str, ...]
    card: str  # of a slice: the card it is cut from
    sight: GpuSight  # with an index that means nothing yet

    def lent(self, index: int, speed: float | None) -> Gpu:
        return Gpu(
            index=index,
            model=self.model,
            memory_bytes=self.memory_bytes,
            speed=self.speed if speed is None else speed,
            declared=False,
            compute_capability=self.compute_capability,
            cuda=self.cuda,
            driver=self.driver,
            card=self.card,
            profile=profile_of(self.model) if self.card else "",
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
            found.append(replace(card, speed=finite(row.get("speed")) or card.speed))
    return found


def shown_model(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name.strip() or "unknown"


def profile_of(model: str) -> str:
    """NVIDIA's names of slices end with their shape: `A100-SXM4-80GB MIG 1g.10gb`."""
    _, mark, shape = model.rpartition(SLICE_MARK)
    return shape.strip() if mark else ""


def _card_of(row: dict[str, Any]) -> str:
    """A driver that does not tell the card's name tells that it is a slice by the slice's own."""
    if row.get("card_uuid"):
        return str(row["card_uuid"])
    return "unknown" if str(row["uuid"]).startswith(SLICE_UUID) else ""


def _card(row: dict[str, Any]) -> Card:
    model = shown_model(str(row.get("model") or ""))
    memory_bytes = _whole(row.get("memory_bytes")) or 0
    return Card(
        uuid=str(row["uuid"]),
        model=model,
        memory_bytes=memory_bytes,
        speed=speed_of(model, memory_bytes, _whole(row.get("card_bytes")) or 0),
        compute_capability=_version(row.get("compute_capability")),
        cuda=_version(row.get("cuda")),
        driver=str(row.get("driver") or ""),
        nodes=tuple(str(node) for node in row.get("nodes") or ()),
        card=_card_of(row),
        sight=_sight(row),
    )


def _sight(row: dict[str, Any]) -> GpuSight:
    processes = row.get("processes")
    return GpuSight(
        index=-1,
        uuid=str(row["uuid"]),
        memory_used_bytes=_whole(row.get("memory_used_bytes")),
        utilisation=finite(row.get("utilisation")),
        temperature_c=finite(row.get("temperature_c")),
        power_w=finite(row.get("power_w")),
        ecc_uncorrected=_whole(row.get("ecc_uncorrected")),
        xids=tuple(xid for value in row.get("xids") or () if (xid := _whole(value)) is not None),
        processes=None
        if processes is None
        else tuple(GpuProcess(pid=int(pid), memory_bytes=_whole(size)) for pid, size in processes),
    )


def _version(value: Any) -> str:
    """What is no version is not known, rather than told."""
    text = str(value or "")
    return "" if version_of(text) is None else text


def _whole(value: Any) -> int | None:
    number = finite(value)
    return None if number is None else int(number)
