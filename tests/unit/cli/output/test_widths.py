"""Figures on terminals of 80 and of 120 columns: no line is longer, and columns stand under their names."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from gpunion.cli.output.cells import width_of
from gpunion.cli.output.free import show_free
from gpunion.cli.output.gpu_history import show_gpu_history
from gpunion.cli.output.screen import GAP, Screen, Table
from gpunion.cli.output.top import Look, looked_at
from gpunion.cli.output.usage import show_usage
from gpunion.lab.commands.plan_in_words import show_plan
from tests.unit.cli.campus_double import Json, a_job
from tests.unit.cli.test_operator_commands import a_node
from tests.unit.cli.test_usage import CAUSE, LAB, PERSON, a_week
from tests.unit.cli.test_usage_gpus import HOURS, by_the_hour, seen

WIDTHS = pytest.mark.parametrize("width", [80, 120])
NARROW_TOO = pytest.mark.parametrize("width", [40, 80, 120])
LONG_LAB, LONG_USER = "computational-linguistics", "a.very.long.name@campus.example"
WIDE_LAB, WIDE_USER = "人工知能研究室", "視覚研究室の計算機"
LONG_NODE = "workstation-in-room-217"
MANY_LABS = [LONG_LAB, WIDE_LAB, *(f"lab-{number}" for number in range(30))]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class PlainScreen(Screen):
    """Without rich, whose colours would be counted as letters."""

    def rich(self) -> bool:
        return False


def lines_of(width: int, monkeypatch: pytest.MonkeyPatch, show: Callable[[Screen], None]) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    out = Terminal()
    show(PlainScreen(out=out))
    return out.getvalue().splitlines()


def place_of(text: str, line: str) -> int:
    """Where it stands on a terminal."""
    return width_of(line[: line.index(text)])


def row_of(name: str, lines: list[str]) -> str:
    return next(line for line in lines if line.startswith(f"{name} "))


def widest(lines: list[str]) -> int:
    return max(map(width_of, lines))


@WIDTHS
def test_usage_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    people = [
        {**PERSON, "used_gpu_h": 12_345.6, "borrowed_gpu_h": 10_000.0},
        {**PERSON, "user": LONG_USER, "lab": LONG_LAB},
        {**PERSON, "user": WIDE_USER, "lab": WIDE_LAB, "used_gpu_h": 54_321.0},
    ]
    labs = [{**LAB, "lab": lab, "open_gpu_h": 99_999.9} for lab in MANY_LABS]
    week = a_week(people=people, labs=labs, interruptions=[CAUSE])
    lines = lines_of(width, monkeypatch, lambda screen: show_usage(week, screen))
    assert widest(lines) <= width
    head = row_of("WHO", lines)
    assert place_of("12,345.6", row_of("ada", lines)) == place_of("USED", head)
    assert place_of("10,000.0", row_of("ada", lines)) == place_of("BORROWED", head)
    assert place_of("54,321.0", row_of(WIDE_USER, lines)) == place_of("USED", head)
    head = row_of("LAB", lines)
    for lab in (WIDE_LAB, "lab-0", "lab-29"):
        assert place_of("99,999.9", row_of(lab, lines)) == place_of("OPEN", head)
        assert place_of("15x", row_of(lab, lines)) == place_of("WANTED", head)


@WIDTHS
def test_what_is_free_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [{"index": 0, "model": "NVIDIA GeForce RTX 4090", "memory_bytes": 24 * 2**30, "speed": 1.0}]
    place = {
        "lab": "vision", "gpus": gpus, "cpus": 64.0, "memory_bytes": 2**36, "notice_s": 60.0,
        "until": "2026-01-01T00:00:00.000Z", "allow_labs": ["vision"], "deny_labs": [],
        "allow_people": [], "deny_people": [],
    }  # fmt: skip
    nodes = [
        {**place, "node": LONG_NODE, "lab": LONG_LAB, "allow_people": [LONG_USER]},
        {**place, "node": "beta", "lab": WIDE_LAB},
        {**place, "node": "gamma", "deny_people": [WIDE_USER]},
    ]
    lines = lines_of(width, monkeypatch, lambda screen: show_free({"nodes": nodes, "waiting": 2}, screen))
    assert widest(lines) <= width
    for node in (LONG_NODE, "beta", "gamma"):
        row = row_of(node, lines)
        assert place_of(" 64 ", row) == place_of(" CPUS", row_of("NODE", lines))
        assert place_of("lab vision", row) == place_of("FOR", row_of("NODE", lines))


@WIDTHS
def test_a_plan_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = {
        "machines": 54, "owners_drawn": 50, "median_wait_s": 3723.0, "low_s": 3600.0, "high_s": 93_600.0,
        "mean_wait_s": 12_345.0, "never_ran": 3, "utilisation": 0.78,
    }  # fmt: skip
    more = {
        "gpus": 16, "model": "RTX PRO 6000 Blackwell", "known": False, "did_you_mean": "RTXPRO6000",
        "gpu_memory_bytes": 2**35, "gpu_memory_known": True, "speed": 1.5, "cpus": 256.0,
        "memory_bytes": 2**40,
    }  # fmt: skip
    told = {
        "for_s": 604_800.0, "jobs": 12_345, "left_out": 0, "recorded_median_wait_s": 3723.0, "seeds": 3,
        "added": [more], "as_it_was": outcome, "changed": outcome,
    }  # fmt: skip
    lines = lines_of(width, monkeypatch, lambda screen: show_plan(told, screen))
    head, *rows = (row_of(name, lines) for name in ("CAMPUS", "as it was", "changed"))
    assert width_of(head) <= width
    for row in rows:
        assert width_of(row) <= width
        assert place_of("1 h to 1 d 2 h", row) == place_of("LOWEST", head)
        assert place_of("78%", row) == place_of("BUSY", head)


def a_gpu(node: str, model: str = "NVIDIA GeForce RTX 4090") -> Json:
    points = [{**point, "seen_s": 3550.0} for point in by_the_hour(*(hour / 24 for hour in range(24)))]
    return {"node": node, "index": 0, "uuid": "GPU-1", "model": model, "points": points}


def what_gpus_did(width: int, monkeypatch: pytest.MonkeyPatch, *gpus: Json) -> list[str]:
    history = seen(*gpus, since=HOURS)
    return lines_of(width, monkeypatch, lambda screen: show_gpu_history(history, screen, for_s=86_400.0))


@WIDTHS
def test_what_gpus_did_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slice_of_one = a_gpu("beta", "NVIDIA A100-SXM4-80GB MIG 1g.10gb")
    lines = what_gpus_did(width, monkeypatch, a_gpu(LONG_NODE), slice_of_one)
    assert widest(lines) <= width
    head = row_of("NODE", lines)
    for node in (LONG_NODE, "beta"):
        row = row_of(node, lines)
        assert place_of("23 h 40 min", row) == place_of("SEEN", head)
        assert row[head.index("OVER TIME")] == "_"
        assert row.endswith("@")  # in one piece


@NARROW_TOO
def test_a_node_can_be_copied_from_what_gpus_did(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = what_gpus_did(width, monkeypatch, a_gpu(LONG_NODE), a_gpu("beta"))
    rows = [line.split()[:2] for line in lines if line.startswith((LONG_NODE, "beta"))]
    assert rows == [[LONG_NODE, "0"], ["beta", "0"]]


def test_a_screen_that_has_no_room_for_all_columns_says_which_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = what_gpus_did(80, monkeypatch, a_gpu(LONG_NODE, "NVIDIA A100-SXM4-80GB MIG 1g.10gb"))
    assert "MODEL" not in row_of("NODE", lines)
    assert lines[-1] == "No room for MODEL. Next: --json, or a wider terminal"
    assert "MODEL" in row_of("NODE", what_gpus_did(120, monkeypatch, a_gpu(LONG_NODE)))


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


@NARROW_TOO
def test_the_campus_as_it_is_fits(width: int) -> None:
    run_id = f"{a_job(1)['id']}-e1"
    gpus = [
        {"index": index, "model": "A100", "memory_bytes": 2**35, "run_id": run_id if not index else None}
        for index in range(8)
    ]
    nodes = [
        a_node(id=f"{phase}-{LONG_NODE}"[:32], lab=lab, phase=phase, runs=[run_id], gpus=gpus)
        for phase, lab in (("sharing", LONG_LAB), ("paused", WIDE_LAB), ("silent", "vision"))
    ]
    live = {"run_id": "x", "step": 1, "progress": 0.3}
    guest = a_job(1, name=f"a-very-long-name-that-somebody-gave-{WIDE_USER}", live=live)
    queue = [
        a_job(2, name="first", phase="pending", owner=LONG_USER, node_id=None),
        a_job(3, name=WIDE_USER, phase="pending", owner=WIDE_USER, node_id=None),
    ]
    look = Look(nodes=nodes, guests=[guest], queue=queue, waiting=2)
    lines = looked_at(look, width=width, height=40)
    assert widest(lines) <= width
    assert len(lines) <= 40
    if width > 40:
        head, names = row_of("NODE", lines), row_of("WAITS", lines)
        assert {
            place_of(signs, line) for line in lines for signs in ("#.......", "#-------") if signs in line
        } == {place_of("GPUS", head)}
        assert {place_of(" ago", row_of(name, lines)) for name in ("first", WIDE_USER)} == {
            place_of(" ago", row_of("first", lines))
        }
        assert place_of(LONG_USER[:8], row_of("first", lines)) == place_of("WHO", names)
