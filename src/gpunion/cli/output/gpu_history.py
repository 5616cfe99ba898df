"""What GPUs did over some time, a line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpunion.cli.campus import Json
from gpunion.cli.output.screen import Screen, Table
from gpunion.cli.output.times import clock_time
from gpunion.cli.quantities import shown_duration

COLUMNS = ("NODE", "GPU", "MODEL", "SEEN", "BUSY", "MEMORY", "HEAT", "WATTS", "OVER TIME")
# A sign for each tenth, so that any terminal has them, and none at which a line is folded.
SIGNS = "_.:~=+*#%@"
UNSEEN = " "
SLOTS, FEW_SLOTS = 24, 12
WIDE = 110  # columns of a terminal that has room for all of them


def show_gpu_history(answer: Json, screen: Screen) -> None:
    if not answer["gpus"]:
        screen.line("No GPU was seen then. Next: gpunion usage gpus --since 7d looks further back;")
        screen.line(
            "what is only declared has no figures, and owners choose (gpunion terms set figures=full)."
        )
        return
    screen.line(f"Since {clock_time(answer['since'])}, while their figures were told:")
    room = screen.room()
    slots = FEW_SLOTS if room is not None and room < WIDE else SLOTS
    rows = [_row(gpu, slots) for gpu in answer["gpus"]]
    screen.table(Table(columns=COLUMNS, rows=[*rows], folds_first=True))
    if answer["left_out"]:
        screen.line(f"{answer['left_out']} older points are left out. Next: --node, or a shorter --since")


def _row(gpu: Json, slots: int) -> list[str]:
    points = gpu["points"]
    return [
        gpu["node"],
        str(gpu["index"]),
        gpu["model"].removeprefix("NVIDIA "),
        shown_duration(sum(point["seen_s"] for point in points)),
        _percent(_mean(points)),
        _percent(_most(points, "memory_share")),
        _number(_most(points, "temperature_c"), " C"),
        _number(_most(points, "power_w"), ""),
        _over_time(points, slots),
    ]


def _mean(points: Sequence[Json]) -> float | None:
    seen = [point for point in points if point["utilisation"] is not None and point["seen_s"]]
    seen_s = sum(point["seen_s"] for point in seen)
    return sum(point["utilisation"] * point["seen_s"] for point in seen) / seen_s if seen_s else None


def _most(points: Iterable[Json], name: str) -> float | None:
    return max((point[name] for point in points if point[name] is not None), default=None)


def _over_time(points: Sequence[Json], slots: int) -> str:
    """As many points to a sign as it takes."""
    size = -(-len(points) // slots)
    means = (_mean(points[at : at + size]) for at in range(0, len(points), size))
    return "".join(UNSEEN if mean is None else SIGNS[min(9, int(mean * 10))] for mean in means)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"
