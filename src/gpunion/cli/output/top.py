"""One look at the whole campus: machines with their GPUs and guests, and who waits. Made to fit a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpunion.cli.campus import Json
from gpunion.cli.output.cells import cut, folded, width_of
from gpunion.cli.output.screen import BREAKS, Table
from gpunion.cli.output.times import ago, clock_time
from gpunion.cli.quantities import shown_reached
from gpunion.text import counted

BUSY, FREE, KEPT, CLOSED = "#", ".", "x", "-"
LEGEND = f"{BUSY} a guest has it, {FREE} free, {KEPT} not lent, {CLOSED} closed (paused, silent, isolated)"
SAID_LEAST = 3  # lines of machines that are shown however long the queue is


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """As much as a screen shows, and how much there is."""

    nodes: Sequence[Json]  # all
    guests: Sequence[Json]  # jobs on those of the machines that are shown
    queue: Sequence[Json]  # who waits, those first who were handed in first
    waiting: int


def looked_at(look: Look, *, width: int | None, height: int | None) -> list[str]:
    """The lines; of what has no room the last one says how much there is."""
    guests = {job["id"]: job for job in look.guests}
    head = list(_head(look, width))
    nodes = [_node(node, guests) for node in sorted(look.nodes, key=lambda node: node["id"])]
    machines = Table(
        columns=("NODE", "LAB", "PHASE", "GPUS", "GUESTS"), rows=[*nodes], spare=("LAB", "PHASE")
    )
    waits = [_waiting(job) for job in look.queue]
    queue = Table(columns=("WAITS", "WHO", "GPUS", "HANDED IN"), rows=[*waits], spare=("GPUS", "WHO"))
    nodes_shown = machines.fitting(width).by_row(width)
    waits_shown = queue.fitting(width).by_row(width) if look.waiting else [["Nobody waits."]]
    if height is None:
        shown = [*head, "", *_cut(nodes_shown, len(nodes), None), "", *_cut(waits_shown, look.waiting, None)]
    else:
        room = max(2 * SAID_LEAST, height - len(head) - 2)
        least = max(SAID_LEAST, room - sum(map(len, nodes_shown)))
        below = _cut(waits_shown, look.waiting, least)
        shown = [*head, "", *_cut(nodes_shown, len(nodes), room - len(below)), "", *below]
    return [line if width is None else cut(line, width) for line in shown][:height]


def _head(look: Look, width: int | None) -> Iterator[str]:
    signs = Counter("".join(map(_gpus, look.nodes)))
    phases = Counter(node["phase"] for node in look.nodes)
    told = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items())) or "none"
    at_work = {_job_of(run) for node in look.nodes for run in node["runs"]}
    gpus = f"{counted(signs[BUSY], 'GPU')} busy, {signs[FREE]} free"
    jobs = f"{counted(len(at_work), 'job')} at work, {look.waiting} waiting"
    both = f"{gpus}; {jobs}"
    # A number that ends a line would be read without what is counted.
    yield from [both] if width is None or width_of(both) <= width else [gpus, jobs]
    for line in (
        f"Machines: {told}",
        f"GPUs: {LEGEND}",
    ):
        yield from [line] if width is None else folded(line, width)


def _node(node: Json, guests: dict[str, Json]) -> list[str]:
    away = not node["connected"] and node["phase"] not in ("silent", "left")
    phase = f"{node['phase']} (away)" if away else str(node["phase"])
    if node["phase"] == "reclaiming" and node.get("deadline_at") is not None:
        phase += f" (until {clock_time(node['deadline_at'])})"
    if node.get("isolated_because"):
        phase += " (isolated)"
    names = [_guest(guests, run) for run in node["runs"]]
    return [node["id"], node["lab"] or "-", phase, _gpus(node) or "none", _clean(", ".join(names)) or "-"]


def _gpus(node: Json) -> str:
    """As the coordinator's own figures count them: free is what a guest who came now would find."""
    unused = {"sharing": FREE, "reclaiming": KEPT, "reclaimed": KEPT}.get(node["phase"], CLOSED)
    if node.get("isolated_because"):
        unused = CLOSED
    return "".join(
        BUSY if gpu["run_id"] is not None else KEPT if gpu.get("withheld") and unused == FREE else unused
        for gpu in node["gpus"]
    )


def _job_of(run_id: str) -> str:
    return run_id.rpartition("-e")[0]


def _guest(guests: dict[str, Json], run_id: str) -> str:
    job = guests.get(_job_of(run_id))
    if job is None:
        return run_id
    live = job["live"]
    reached = f" {shown_reached(live['progress'], live['step'])}" if live else f" {job['phase']}"
    return f"{job['name']}{reached}"


def _waiting(job: Json) -> list[str]:
    gpus = job["resources"].get("gpus", 1)
    return [_clean(job["name"]), _clean(job["owner"]), str(gpus), ago(job["submitted_at"])]


def _clean(text: str) -> str:
    return BREAKS.sub(" ", text)


def _cut(rows: list[list[str]], total: int, room: int | None) -> list[str]:
    """Whole rows of a table, below the names of its columns; `total`: how many there are, here or not."""
    head, *below = rows
    lines, shown = list(head), 0
    for row in below:
        left = len(lines) + len(row) if room is None else room - len(lines) - (shown + 1 < total)
        if len(row) > left and shown:
            break
        lines += row[: max(1, left)]  # of the first at least a part
        shown += 1
    return lines if shown >= total else [*lines, f"... and {total - shown} more"]
