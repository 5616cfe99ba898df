"""The whole campus at a look."""

from __future__ import annotations

import json

import pytest

from gpunion.cli.commands.figures.top import look_again, look_at
from gpunion.cli.output.times import clock_time
from gpunion.cli.output.top import Look, looked_at
from gpunion.sdk.errors import Unreachable
from tests.unit.cli.campus_double import CampusDouble, Json, Terminal, a_job
from tests.unit.cli.test_operator_commands import a_node

JOB = a_job(live={"run_id": "r", "step": 10, "progress": 0.5})
RUN = f"{JOB['id']}-e1"


def a_look(nodes: int = 1, waiting: int = 0, **job: object) -> Look:
    return Look(
        nodes=[a_node(id=f"node-{number:03d}", runs=[RUN]) for number in range(nodes)],
        guests=[{**JOB, **job}],
        queue=[a_waiting_job(number) for number in range(2, waiting + 2)],
        waiting=waiting,
    )


def a_waiting_job(number: int) -> Json:
    return a_job(number, name=f"job-{number}", phase="pending", node_id=None)


def a_full_campus(campus: CampusDouble, waiting: int, machines: int = 1) -> None:
    """One job runs, the oldest of all; the others wait."""
    nodes = [a_node(id=f"node-{number:03d}", runs=[]) for number in range(1, machines)]
    campus.machines = [a_node(id="node-000", runs=[RUN]), *nodes]
    queue = [a_waiting_job(number) for number in range(2, waiting + 2)]
    campus.known = {job["id"]: job for job in (JOB, *queue)}


def test_gpus_guests_and_queue_are_shown(gpunion: Terminal, campus: CampusDouble) -> None:
    a_full_campus(campus, waiting=1)
    assert gpunion("top") == 0
    head, _, legend, _, _, node, _, names, waits = gpunion.out.splitlines()
    assert head == "1 GPU busy, 1 free; 1 job at work, 1 waiting"
    assert "# a guest has it" in legend
    assert node.split("  ")[0] == "node-000"
    assert "#." in node
    assert "train 50% (step 10)" in node
    assert names.split("  ")[-1] == "HANDED IN"
    assert waits.startswith("job-2")
    assert gpunion("top", "--json") == 0
    told = json.loads(gpunion.out)
    assert [job["name"] for job in told["guests"]] == ["train"]
    assert ([job["name"] for job in told["queue"]], told["waiting"]) == (["job-2"], 1)


def test_a_long_queue_hides_neither_who_runs_nor_who_waits_longest(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    a_full_campus(campus, waiting=500)
    assert gpunion("top") == 0
    lines = gpunion.out.splitlines()
    assert lines[0].endswith("1 job at work, 500 waiting")
    assert "train 50% (step 10)" in gpunion.out
    assert lines[8].startswith("job-2 ")
    assert lines[-1] == "... and 300 more"


def test_no_more_jobs_are_asked_for_than_a_screen_could_show(campus: CampusDouble) -> None:
    a_full_campus(campus, waiting=10_000, machines=300)
    look = look_at(campus, 24)
    assert look.waiting == 10_000
    assert campus.rows_answered <= 25
    lines = looked_at(look, width=80, height=24)
    assert lines[0].endswith("1 job at work, 10000 waiting")
    assert "train 50% (step 10)" in "".join(lines)


@pytest.mark.parametrize(
    ("changes", "signs"),
    [
        ({}, "#."),
        ({"phase": "reclaiming"}, "#x"),
        ({"phase": "reclaimed"}, "#x"),
        ({"phase": "paused"}, "#-"),
        ({"phase": "silent"}, "#-"),
        ({"phase": "left"}, "#-"),
        ({"isolated_because": "it said what cannot be"}, "#-"),
    ],
)
def test_only_a_gpu_that_a_new_guest_would_find_is_free(changes: Json, signs: str) -> None:
    look = Look(nodes=[a_node(runs=[], **changes)], guests=[], queue=[], waiting=0)
    lines = looked_at(look, width=None, height=None)
    [line] = [line for line in lines if line.startswith("alpha")]
    assert signs in line.split()
    assert lines[0].startswith(f"1 GPU busy, {signs.count('.')} free;")
    assert all(sign in lines[2].split() for sign in signs)


def test_a_machine_whose_owner_wants_it_back_says_until_when() -> None:
    by = "2026-01-01T00:05:00.000Z"
    look = Look(nodes=[a_node(phase="reclaiming", deadline_at=by)], guests=[], queue=[], waiting=0)
    assert f"reclaiming (until {clock_time(by)})" in "\n".join(looked_at(look, width=None, height=None))


def test_a_gpu_that_is_withheld_is_not_free() -> None:
    node = a_node(runs=[])
    node["gpus"][1]["withheld"] = "GPU 1: its owner is computing on it"
    lines = looked_at(Look(nodes=[node], guests=[], queue=[], waiting=0), width=None, height=None)
    assert "#x" in lines[5].split()


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize(("nodes", "waiting"), [(0, 0), (3, 2), (60, 2), (3, 60), (60, 60)])
def test_it_fits_every_screen(width: int, nodes: int, waiting: int) -> None:
    lines = looked_at(a_look(nodes, waiting), width=width, height=24)
    assert len(lines) <= 24
    assert all(len(line) <= width for line in lines)
    assert any("more" in line for line in lines) == (nodes + waiting > 20)


def test_what_has_no_room_is_counted_in_rows_and_not_in_lines() -> None:
    look = a_look(nodes=40, name="a name that is folded at its blanks as it is far too long for a line")
    lines = looked_at(look, width=60, height=30)
    shown = sum(line.startswith("node-") for line in lines)
    assert 0 < shown < 20
    assert f"... and {40 - shown} more" in lines


def test_names_cannot_break_the_screen() -> None:
    shown = "\n".join(looked_at(a_look(name="a\x1b[2Jb\nc"), width=80, height=24))
    assert "\x1b" not in shown
    assert "a [2Jb c" in shown


def test_a_coordinator_that_is_started_again_ends_no_look_at_it(campus: CampusDouble) -> None:
    a_full_campus(campus, waiting=1)
    before = look_at(campus)

    class Away(CampusDouble):
        def nodes(self, *, all: bool = False) -> list[Json]:
            raise Unreachable("http://campus", "connection refused")

    assert look_again(Away(), before, 24) == (before, str(Unreachable("http://campus", "connection refused")))
    assert look_again(campus, before, 24)[1] == ""


def test_what_is_counted_stands_behind_its_number_on_a_narrow_screen_too() -> None:
    lines = looked_at(a_look(), width=40, height=24)
    assert lines[:2] == ["1 GPU busy, 1 free", "1 job at work, 0 waiting"]
