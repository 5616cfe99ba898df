"""What GPUs did over some time, a line each."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpunion.cli.campus import Json
from gpunion.cli.output.screen import Screen, Table
from gpunion.cli.output.times import clock_time
from gpunion.cli.quantities import shown_duration, shown_model

COLUMNS = ("NODE", "GPU", "MODEL", "SEEN", "BUSY", "MEMORY", "HEAT", "WATTS", "OVER TIME")
# Where a line has no room they go in this order; which GPU it is, and whether it worked, stays.
SPARE = ("MODEL", "OVER TIME", "WATTS", "HEAT", "MEMORY")
# A sign for each tenth, so that any terminal has them, and none at which a line is folded.
SIGNS = "_.:~=+*#%@"
UNSEEN = " "
SLOTS = (24, 12, 8)  # as many as there is room for


@dataclass(frozen=True, slots=True)
class Axis:
    """Signs of equal length, whatever was seen. Counted in absolute seconds: a day on which clocks are put
    forward has an hour less."""

    begins_s: float
    sign_s: float
    signs: int

    @classmethod
    def over(cls, since_s: float, for_s: float, point_s: float, slots: int) -> Axis:
        """From the point on in which that time began, to now: the last sign is not over yet."""
        begins_s = since_s // point_s * point_s
        sign_s = math.ceil(for_s / point_s / slots) * point_s
        return cls(begins_s, sign_s, math.ceil((since_s + for_s - begins_s) / sign_s))

    def drawn(self, points: Iterable[Json]) -> str:
        there = defaultdict[int, list[Json]](list)
        for point in points:
            there[int((_moment_s(point["at"]) - self.begins_s) // self.sign_s)].append(point)
        means = (_mean(there[number]) for number in range(self.signs))
        return "".join(UNSEEN if mean is None else SIGNS[min(9, int(mean * 10))] for mean in means)


def show_gpu_history(answer: Json, screen: Screen, *, for_s: float) -> None:
    """`for_s`: how far back was asked for."""
    if not answer["gpus"]:
        screen.line("No GPU was seen then. Next: gpunion usage gpus --since 7d looks further back;")
        screen.line(
            "what is only declared has no figures, and owners choose (gpunion terms set figures=full)."
        )
        return
    table, axis = next(_laid_out(answer, for_s, screen.room()))
    screen.line(f"Since {clock_time(answer['since'])}, while their figures were told:")
    if "OVER TIME" in table.columns:
        screen.line(f"OVER TIME: a sign is {shown_duration(axis.sign_s)}, a blank was not seen.")
    screen.table(table)
    screen.say_what_has_no_room(COLUMNS, table)
    if answer["left_out"]:
        screen.line("There is more before, too much for one answer. Next: --node, or a shorter --since")


def _laid_out(answer: Json, for_s: float, room: int | None) -> Iterator[tuple[Table, Axis]]:
    """Those that fit, best first, and in any case the smallest one."""
    points = [point for gpu in answer["gpus"] for point in gpu["points"]]
    since_s, point_s = _moment_s(answer["since"]), answer["point_s"]
    if answer["left_out"]:  # nobody knows whether they were seen: the axis begins with what is told
        moments = [_moment_s(point["at"]) for point in points]
        since_s, for_s = min(moments), max(moments) - min(moments) + point_s
    axes = [Axis.over(since_s, for_s, point_s, slots) for slots in SLOTS]
    drawn = [(axis, [_cells(gpu, axis) for gpu in answer["gpus"]]) for axis in axes]
    for spared in range(len(SPARE) + 1):
        columns = [name for name in COLUMNS if name not in SPARE[:spared]]
        for axis, gpus in drawn:
            table = Table(columns=columns, rows=[[gpu[name] for name in columns] for gpu in gpus])
            if table.fits(room) or spared == len(SPARE):
                yield table, axis


def _cells(gpu: Json, axis: Axis) -> dict[str, str]:
    points = gpu["points"]
    return {
        "NODE": gpu["node"],
        "GPU": str(gpu["index"]),
        "MODEL": shown_model(gpu["model"]),
        "SEEN": shown_duration(sum(point["seen_s"] for point in points)),
        "BUSY": _percent(_mean(points)),
        "MEMORY": _percent(_most(points, "memory_share")),
        "HEAT": _number(_most(points, "temperature_c"), " C"),
        "WATTS": _number(_most(points, "power_w"), ""),
        "OVER TIME": axis.drawn(points),
    }


def _moment_s(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _mean(points: Sequence[Json]) -> float | None:
    seen = [point for point in points if point["utilisation"] is not None and point["seen_s"]]
    seen_s = sum(point["seen_s"] for point in seen)
    return sum(point["utilisation"] * point["seen_s"] for point in seen) / seen_s if seen_s else None


def _most(points: Iterable[Json], name: str) -> float | None:
    return max((point[name] for point in points if point[name] is not None), default=None)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"
