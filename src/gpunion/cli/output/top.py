"""One look at the whole campus: machines with their GPUs and guests, and who waits. Made to fit a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpunion.cli.campus import Json
from gpunion.cli.output.screen import BREAKS, Table
from gpunion.cli.output.times import ago
from gpunion.cli.quantities import shown_reached
from gpunion.text import counted

BUSY, FREE, WITHHELD = "#", ".", "x"
LEGEND = f"GPUs: {BUSY} a guest has it, {FREE} free, {WITHHELD} its owner has it"
SAID_LEAST = 3  # lines of machines that are shown however long the queue is
WAITING = ("pending", "migrating", "between")


def looked_at(
    nodes: Sequence[Json], jobs: Sequence[Json], *, width: int | None, height: int | None
) -> list[str]:
    """The lines; of what has no room the last one says how much there is."""
    running = {job["id"]: job for job in jobs if job["phase"] not in WAITING}
    waiting = sorted((job for job in jobs if job["phase"] in WAITING), key=lambda job: job["submitted_at"])
    head = _head(nodes, running, waiting)
    rows = [_node(node, running) for node in sorted(nodes, key=lambda node: node["id"])]
    machines = Table(columns=("NODE", "LAB", "PHASE", "GPUS", "GUESTS"), rows=[*rows]).plain(width)
    waits = [_waiting(job) for job in waiting]
    queue = Table(columns=("WAITS", "WHO", "GPUS", "SINCE"), rows=[*waits]).plain(width)
    if not waiting:
        queue = ["Nobody waits."]
    if height is None:
        return [*head, "", *machines, "", *queue]
    room = max(2 * SAID_LEAST, height - len(head) - 2)
    of_queue = min(len(queue), max(SAID_LEAST, room - len(machines)))
    shown = [*head, "", *_cut(machines, room - of_queue), "", *_cut(queue, of_queue)]
    return [line if width is None else line[:width] for line in shown]


def _head(nodes: Sequence[Json], running: dict[str, Json], waiting: Sequence[Json]) -> list[str]:
    cells = Counter("".join(map(_gpus, nodes)))
    lent = cells[BUSY] + cells[FREE]
    busy = f"{cells[BUSY]} of {lent} lent GPUs busy" if lent else "no GPU is lent now"
    phases = Counter(node["phase"] for node in nodes)
    told = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items())) or "none"
    return [
        f"{busy}   {counted(len(running), 'job')} at work, {len(waiting)} waiting",
        f"Machines: {told}",
        LEGEND,
    ]


def _node(node: Json, running: dict[str, Json]) -> list[str]:
    away = not node["connected"] and node["phase"] not in ("silent", "left")
    phase = f"{node['phase']} (away)" if away else str(node["phase"])
    names = [_guest(running, run) for run in node["runs"]]
    return [node["id"], node["lab"] or "-", phase, _gpus(node) or "none", _clean(", ".join(names)) or "-"]


def _gpus(node: Json) -> str:
    lent = node["phase"] in ("sharing", "paused", "reclaiming")
    return "".join(
        BUSY if gpu["run_id"] is not None else FREE if lent and not gpu.get("withheld") else WITHHELD
        for gpu in node["gpus"]
    )


def _guest(running: dict[str, Json], run_id: str) -> str:
    job = running.get(run_id.rpartition("-e")[0])
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


def _cut(lines: list[str], room: int) -> list[str]:
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], f"... and {len(lines) - room + 1} more"]
