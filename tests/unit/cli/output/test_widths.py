"""Figures on terminals of 80 and of 120 columns: no line is longer, and columns stand under their names."""

from __future__ import annotations

import io
from typing import Any

import pytest

from gpunion.cli.output.gpu_history import show_gpu_history
from gpunion.cli.output.screen import GAP, Screen, Table
from gpunion.cli.output.top import Look, looked_at
from gpunion.cli.output.usage import show_usage
from tests.unit.cli.campus_double import Json, a_job
from tests.unit.cli.test_operator_commands import a_node
from tests.unit.cli.test_usage import CAUSE, LAB, PERSON, a_week
from tests.unit.cli.test_usage_gpus import a_point

WIDTHS = pytest.mark.parametrize("width", [80, 120])
LONG_LAB, LONG_USER = "computational-linguistics", "a.very.long.name@campus.example"
LONG_NODE = "workstation-in-room-217"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class PlainScreen(Screen):
    """Without rich, whose colours would be counted as letters."""

    def rich(self) -> bool:
        return False


def lines_of(width: int, monkeypatch: pytest.MonkeyPatch, show: Any, answer: Json) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    out = Terminal()
    show(answer, PlainScreen(out=out))
    return out.getvalue().splitlines()


@WIDTHS
def test_usage_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    people = [
        {**PERSON, "used_gpu_h": 12_345.6, "borrowed_gpu_h": 10_000.0},
        {**PERSON, "user": LONG_USER, "lab": LONG_LAB},
    ]
    week = a_week(people=people, labs=[LAB, {**LAB, "lab": LONG_LAB}], interruptions=[CAUSE])
    lines = lines_of(width, monkeypatch, show_usage, week)
    assert max(map(len, lines)) <= width
    [head] = [line for line in lines if line.startswith("WHO")]
    [ada] = [line for line in lines if line.startswith("ada")]
    assert ada.index("12,345.6") == head.index("USED")
    assert ada.index("10,000.0") == head.index("BORROWED")


@WIDTHS
def test_what_gpus_did_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {
        "node": LONG_NODE, "index": 0, "uuid": "GPU-1", "model": "NVIDIA GeForce RTX 4090",
        "points": [a_point(number / 24) for number in range(24)],
    }  # fmt: skip
    history = {"since": "2026-01-01T00:00:00.000Z", "gpus": [gpu], "left_out": 0}
    lines = lines_of(width, monkeypatch, show_gpu_history, history)
    assert max(map(len, lines)) <= width
    head, first = lines[1], lines[2]
    assert first.index("24 min") == head.index("SEEN")
    assert first[head.index("OVER TIME")] == "_"
    assert first.endswith("@")  # in one piece


TABLES = {
    "nodes": Table(
        columns=("NODE", "LAB", "PHASE", "GPUS", "CAPABILITY", "CUDA", "BUSY", "NOTICE", "LENT", "HEARD"),
        rows=[
            [
                "lab217",
                "vision",
                "sharing",
                "2 x A100 40 GiB",
                "8.0",
                "12.4 (550.54)",
                "1/2",
                "1 min",
                "5 min 16 s",
                "1 s ago",
            ],
            ["b", "robots", "reclaimed (away)", "none", "-", "-", "0/0", "30 s", "0 s", "2 min 3 s ago"],
        ],
    ),
    "checkpoints": Table(
        columns=(
            "CHECKPOINT",
            "PHASE",
            "TIER",
            "NODE",
            "STEP",
            "SIZE",
            "SHIPPED",
            "STOOD STILL",
            "LIES IN",
            "ASKED",
        ),
        rows=[
            [
                "e2-a1 (last of its run)",
                "durable",
                "app",
                "beta",
                "40 (50%)",
                "496 bytes",
                "601 bytes",
                "0.3 s",
                "campus",
                "1 min 16 s ago",
            ]
        ],
        folds_first=True,
    ),
}


@WIDTHS
@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_many_columns_is_folded_at_its_blanks(width: int, name: str) -> None:
    table = TABLES[name]
    lines = table.plain(width)
    assert max(map(len, lines)) <= width
    starts = [sum(table.widths(width)[:index]) + GAP * index for index in range(len(table.columns))]
    for start in starts[1:]:
        assert {line[start - GAP : start].strip() for line in lines} == {""}
    words = {word for row in table.rows for cell in row for word in cell.split()}
    assert words <= set(" ".join(lines).split())


@WIDTHS
def test_the_campus_as_it_is_fits(width: int) -> None:
    run_id = f"{a_job(1)['id']}-e1"
    gpus = [
        {"index": index, "model": "A100", "memory_bytes": 2**35, "run_id": run_id if not index else None}
        for index in range(8)
    ]
    nodes = [
        a_node(id=LONG_NODE, lab=LONG_LAB, phase=phase, runs=[run_id], gpus=gpus)
        for phase in ("sharing", "reclaiming", "reclaimed", "paused", "silent")
    ]
    live = {"run_id": "x", "step": 1, "progress": 0.3}
    guest = a_job(1, name="a-very-long-name-that-somebody-gave", live=live)
    queue = [a_job(2, phase="pending", owner=LONG_USER, node_id=None)]
    look = Look(nodes=nodes, guests=[guest], queue=queue, waiting=1)
    lines = looked_at(look, width=width, height=24)
    assert max(map(len, lines)) <= width
    assert len(lines) <= 24
