"""What anybody could have now, for people: machine by machine, and until when."""

from __future__ import annotations

from gpunion.cli.campus import Json
from gpunion.cli.output.screen import Screen, Table
from gpunion.cli.output.times import clock_time
from gpunion.cli.quantities import shown_duration, shown_kinds, shown_size
from gpunion.text import counted

COLUMNS = ("NODE", "LAB", "FREE GPUS", "CPUS", "MEMORY", "UNTIL", "NOTICE", "FOR")
SPARE = ("NOTICE", "MEMORY", "CPUS", "UNTIL", "LAB")  # where a screen has no room for all


def show_free(answer: Json, screen: Screen) -> None:
    if screen.as_json:
        screen.data(answer)
        return
    useful = [node for node in answer["nodes"] if node["gpus"] or node["cpus"] >= 1.0]
    if useful:
        useful.sort(key=lambda node: (-len(node["gpus"]), node["node"]))
        screen.table(Table(columns=COLUMNS, rows=[_row(node) for node in useful], spare=SPARE))
    waiting = answer["waiting"]
    if not useful:
        screen.line("Nothing is free now. Next: gpunion submit hands a job in, and it starts when it can.")
    if waiting:
        screen.line(f"{counted(waiting, 'job')} already wait{'s' if waiting == 1 else ''} for a place.")


def _row(node: Json) -> list[str]:
    return [
        str(node["node"]),
        str(node["lab"] or "-"),
        shown_kinds(node["gpus"]) or "none",
        f"{node['cpus']:g}",
        shown_size(node["memory_bytes"]),
        "-" if node["until"] is None else clock_time(node["until"]),
        shown_duration(node["notice_s"]),
        _for_whom(node),
    ]


def _for_whom(node: Json) -> str:
    labs = [f"lab {lab}" for lab in node["allow_labs"]] + node["allow_people"]
    refused = [f"lab {lab}" for lab in node["deny_labs"]] + node["deny_people"]
    said = ", ".join(labs) or "anybody"
    return f"{said} but {', '.join(refused)}" if refused else said
