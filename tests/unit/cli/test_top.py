"""The whole campus at a look."""

from __future__ import annotations

import json

import pytest

from gpunion.cli.output.top import looked_at
from tests.unit.cli.campus_double import CampusDouble, Json, Terminal, a_job
from tests.unit.cli.test_operator_commands import a_node

JOB = a_job(live={"run_id": "r", "step": 10, "progress": 0.5})


def a_campus(nodes: int = 1, waiting: int = 0) -> tuple[list[Json], list[Json]]:
    machines = [a_node(id=f"node-{number:03d}", runs=[f"{JOB['id']}-e1"]) for number in range(nodes)]
    numbers = range(2, waiting + 2)
    queue = [a_job(number, name=f"job-{number}", phase="pending", node_id=None) for number in numbers]
    return machines, [JOB, *queue]


def test_gpus_guests_and_queue_are_shown(gpunion: Terminal, campus: CampusDouble) -> None:
    nodes, jobs = a_campus(waiting=1)
    campus.machines, campus.known = nodes, {job["id"]: job for job in jobs}
    assert gpunion("top") == 0
    head, _, legend, _, _, node, _, _, waits = gpunion.out.splitlines()
    assert head.startswith("1 of 2 lent GPUs busy   1 job at work, 1 waiting")
    assert "# a guest has it" in legend
    assert node.split("  ")[0] == "node-000"
    assert "#." in node
    assert "train 50% (step 10)" in node
    assert waits.startswith("job-2")
    assert gpunion("top", "--json") == 0
    assert set(json.loads(gpunion.out)) == {"nodes", "jobs"}


def test_a_gpu_of_a_machine_that_its_owner_has_is_not_free() -> None:
    lines = looked_at([a_node(phase="reclaimed", runs=[])], [], width=None, height=None)
    [line] = [line for line in lines if line.startswith("alpha")]
    assert "#x" in line


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(("nodes", "waiting"), [(0, 0), (3, 2), (60, 2), (3, 60), (60, 60)])
def test_it_fits_every_screen(width: int, nodes: int, waiting: int) -> None:
    lines = looked_at(*a_campus(nodes, waiting), width=width, height=24)
    assert len(lines) <= 24
    assert all(len(line) <= width for line in lines)
    assert any("more" in line for line in lines) == (nodes + waiting > 20)


def test_names_cannot_break_the_screen() -> None:
    nodes, jobs = a_campus()
    jobs[0]["name"] = "a\x1b[2Jb\nc"
    shown = "\n".join(looked_at(nodes, jobs, width=80, height=24))
    assert "\x1b" not in shown
    assert "a [2Jb c" in shown
