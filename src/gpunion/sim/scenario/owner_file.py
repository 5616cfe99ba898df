"""Reads owners: weekly hours, chance, or a list of what they said and when (in the scenario, TOML or CSV)."""

from __future__ import annotations

import csv
import fnmatch
import io
import tomllib
from pathlib import Path

from gpunion.domain.ids import NodeId
from gpunion.sim.scenario.toml_tables import ScenarioError, Table, one_of
from gpunion.sim.scenario.values import HOUR_S, Hours, OwnerAct, OwnerPlan, RandomOwner, SignHabit
from gpunion.sim.streams import Streams

WORDS = ("reclaim", "when_safe", "kill", "pause", "resume", "leave", "rejoin", "foretell")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def owner_plans(table: Table, node_ids: list[NodeId], folder: Path, streams: Streams) -> list[OwnerPlan]:
    """One plan per node whose id matches `node` (a name, or a pattern like 'lab-*')."""
    pattern = table.text("node")
    matching = [node_id for node_id in node_ids if fnmatch.fnmatchcase(node_id, pattern)]
    if not matching:
        one_of(f"{table.where}.node", pattern, node_ids)
    plans = []
    for node_id in matching:
        one = table.drawing_from(streams.named(f"scenario/owner/{node_id}"))
        one.has("node")
        acts = [_act(act) for act in one.tables("acts")]
        if one.has("file"):
            acts += read_acts(folder / one.text("file"))
        plans.append(
            OwnerPlan(
                node_id=node_id,
                acts=tuple(sorted(acts, key=lambda act: act.at_s)),
                hours=tuple(_hours(hours) for hours in one.tables("hours")),
                hours_notice_s=one.number("notice_s", 60.0),
                random=one.table("random").fill(RandomOwner) if one.has("random") else None,
                signs=one.table("signs").fill(SignHabit) if one.has("signs") else None,
            )
        )
        one.done()
    return plans


def read_acts(path: Path) -> list[OwnerAct]:
    """A CSV with the columns at_s, do, notice_s, gpu, or a TOML file with [[acts]]."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from None
    if path.suffix == ".csv":
        rows: list[dict[str, object]] = [
            {key: _cell(key, value) for key, value in row.items() if key and value}
            for row in csv.DictReader(io.StringIO(text))
        ]
        return [_act(Table(f"{path.name}[{index}]", row)) for index, row in enumerate(rows)]
    try:
        top = Table(path.name, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path.name}: not valid TOML: {error}") from None
    acts = [_act(table) for table in top.tables("acts")]
    top.done()
    return acts


def _cell(key: str, value: str) -> object:
    if key == "do":
        return value
    try:
        return float(value)
    except ValueError:
        return value  # the table will say what is wrong with it


def _act(table: Table) -> OwnerAct:
    do = one_of(f"{table.where}.do", table.text("do"), WORDS)
    gpu = table.optional("gpu")
    if gpu is not None and do not in ("reclaim", "resume"):
        raise ScenarioError(f"{table.where}.gpu: one GPU alone can be reclaimed and resumed, not {do!r}")
    act = OwnerAct(
        at_s=table.number("at_s"),
        do=do,
        notice_s=table.optional("notice_s"),
        gpu=None if gpu is None else round(gpu),
    )
    table.done()
    return act


def _hours(table: Table) -> Hours:
    hours = Hours(
        days=_days(table.where, table.text("days")),
        from_s=_clock(table.where, table.text("from")),
        to_s=_clock(table.where, table.text("to")),
    )
    table.done()
    if hours.to_s <= hours.from_s:
        raise ScenarioError(f"{table.where}: 'to' must be later than 'from'")
    return hours


def _days(where: str, text: str) -> tuple[int, ...]:
    first, _, last = text.partition("-")
    begin = DAYS.index(one_of(f"{where}.days", first, DAYS))
    end = DAYS.index(one_of(f"{where}.days", last or first, DAYS))
    return tuple(range(begin, end + 1))


def _clock(where: str, text: str) -> float:
    hours, _, minutes = text.partition(":")
    if not (hours.isdigit() and minutes.isdigit()):
        raise ScenarioError(f"{where}: expected a time like 09:30, found '{text}'")
    return int(hours) * HOUR_S + int(minutes) * 60.0
