"""`gpunion usage plan`, from a coordinator's answers to two medians."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.campus_double import CampusDouble, Json, Terminal
from tests.unit.cli.test_operator_commands import a_node
from tests.unit.cli.test_usage import a_week


@pytest.fixture
def campus() -> CampusDouble:
    campus = CampusDouble()
    campus.machines = [a_node(lab="robots", runs=[])]
    campus.used = a_week(labs=[])
    campus.past = {
        "since": "2026-01-01T00:00:00.000Z",
        "began_hour": 0,
        "requests": [a_request(0.0), a_request(0.0), a_request(0.0), a_request(0.0, first_ran_s=7200.0)],
        "left_out": 0,
    }
    return campus


@pytest.fixture
def gpunion(campus: CampusDouble, tmp_path: Path) -> Terminal:
    return Terminal(campus, tmp_path)


def a_request(submit_s: float, **changes: object) -> Json:
    request: Json = {
        "submit_s": submit_s, "first_ran_s": submit_s, "ended_s": None, "work_s": 7200.0, "expected_s": None,
        "user": "ada", "lab": "vision", "priority": "normal", "gang": 1, "gpus": 2, "vram_bytes": 0,
        "models": [], "exclude": [], "cpus": 1.0, "memory_bytes": 2**30,
    }  # fmt: skip
    return {**request, **changes}


def test_a_machine_more_shortens_the_wait_and_it_is_called_a_simulation(gpunion: Terminal) -> None:
    line = ("usage", "plan", "--add", "2xA100", "--add", "2xA100", "--since", "1d", "--seeds", "2")
    assert gpunion(*line) == 0
    assert "A simulation of 4 jobs over 1 d" in gpunion.out
    assert " -> " in gpunion.out
    assert gpunion(*line, "--json") == 0
    told = json.loads(gpunion.out)
    assert told["simulation"] is True
    assert (told["as_it_was"]["machines"], told["changed"]["machines"]) == (1, 3)
    assert told["changed"]["median_wait_s"] < told["as_it_was"]["median_wait_s"]
    assert told["recorded_median_wait_s"] == 0.0


def test_a_machine_that_is_not_there_cannot_be_taken_away(gpunion: Terminal) -> None:
    assert gpunion("usage", "plan", "--without", "beta") != 0
    assert "there is no machine beta" in gpunion.err


def test_a_time_without_jobs_cannot_be_run_again(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.past["requests"] = []
    assert gpunion("usage", "plan") != 0
    assert "no job was handed in then" in gpunion.err


@pytest.mark.parametrize("wrong", ["RTX4090", "0xA100", "2", "x"])
def test_what_is_no_machine_is_refused_with_an_example(gpunion: Terminal, wrong: str) -> None:
    assert gpunion("usage", "plan", "--add", wrong) == 2
    assert "2xRTX4090" in gpunion.err
