"""What `gpunion usage plan` found, for people."""

from __future__ import annotations

from collections.abc import Iterator

from gpunion.cli.campus import Json
from gpunion.cli.output.screen import Screen, Table
from gpunion.cli.quantities import shown_duration, shown_size
from gpunion.domain.gpu_models import REFERENCE
from gpunion.text import counted

COLUMNS = ("CAMPUS", "MACHINES", "MEDIAN WAIT", "LOWEST TO HIGHEST", "MEAN", "NEVER RAN", "BUSY")
SPARE = ("MEAN", "NEVER RAN", "MACHINES")  # where a screen has no room for all


def show_plan(told: Json, screen: Screen) -> None:
    was, would = told["as_it_was"], told["changed"]
    screen.line(
        f"A simulation of {counted(told['jobs'], 'job')} over {shown_duration(told['for_s'])}. "
        f"In truth the median wait was {shown_duration(told['recorded_median_wait_s'])}."
    )
    if told["left_out"]:
        screen.line(
            f"Left out: the oldest {counted(told['left_out'], 'request')}, as no more are told at once. "
            "Next: a shorter --since"
        )
    for line in (line for one in told["added"] for line in _added(one)):
        screen.line(line)
    screen.line()
    rows = [_row("as it was", was), _row("changed", would)]
    screen.table(Table(columns=COLUMNS, rows=[*rows], spare=SPARE))
    screen.line()
    screen.line(
        f"Median wait {shown_duration(was['median_wait_s'])} -> {shown_duration(would['median_wait_s'])}, "
        f"with {counted(told['seeds'], 'seed')}."
    )
    if told["changed"]["machines"] == told["as_it_was"]["machines"] and not told["added"]:
        screen.line("Nothing was added (--add) or taken away (--without): this only tries the simulation.")
    for line in _owners(told):
        screen.line(line)


def _added(one: Json) -> Iterator[str]:
    machine = f"{one['gpus']} x {one['model']}"
    memory = shown_size(one["gpu_memory_bytes"])
    yield (
        f"{machine} more: {memory} each, speed {one['speed']:g} ({REFERENCE}: 1); "
        f"{one['cpus']:g} processors, {shown_size(one['memory_bytes'])}."
    )
    if not one["known"]:
        meant = f"; did you mean {one['did_you_mean']}?" if one["did_you_mean"] else "."
        yield f"{one['model']} is no model that is known{meant} Its speed is assumed."
    if not one["gpu_memory_known"]:
        yield f"Its memory is assumed. Next: write it behind the model: {one['gpus']}x{one['model']}-48GB"


def _owners(told: Json) -> Iterator[str]:
    """Of the campus with what is added and without what is taken away."""
    machines, drawn = told["changed"]["machines"], told["changed"]["owners_drawn"]
    if drawn < machines:
        whose = "Owners" if not drawn else f"Owners of {counted(machines - drawn, 'machine')}"
        yield f"{whose} come and go as they did (figures=full)."
    if drawn:
        whose = "Owners" if drawn == machines else "The others'"
        yield f"{whose} come as often as those of their lab did, at moments that are drawn anew."


def _row(name: str, one: Json) -> list[str]:
    return [
        name,
        str(one["machines"]),
        shown_duration(one["median_wait_s"]),
        f"{shown_duration(one['low_s'])} to {shown_duration(one['high_s'])}",
        shown_duration(one["mean_wait_s"]),
        f"{one['never_ran']:g}",
        f"{one['utilisation']:.0%}",
    ]
