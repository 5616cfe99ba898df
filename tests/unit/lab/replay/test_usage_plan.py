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


def plan(gpunion: Terminal, *words: str) -> str:
    assert gpunion("usage", "plan", "--since", "1d", "--seeds", "1", *words) == 0
    return gpunion.out


def plan_as_json(gpunion: Terminal, *words: str) -> Json:
    told: Json = json.loads(plan(gpunion, "--json", *words))
    return told


def test_requests_that_were_left_out_are_told(gpunion: Terminal, campus: CampusDouble) -> None:
    assert "Left out" not in plan(gpunion)
    campus.past["left_out"] = 90_000
    assert "Left out: the oldest 90000 requests," in plan(gpunion)
    assert plan_as_json(gpunion)["left_out"] == 90_000


def test_only_owners_that_are_drawn_anew_are_said_to_be(gpunion: Terminal, campus: CampusDouble) -> None:
    assert "drawn anew" in plan(gpunion)
    assert "figures=full" not in gpunion.out
    campus.past["machines"] = [{"node": "alpha", "phases": [{"at_s": -5.0, "phase": "sharing"}]}]
    assert "Owners come and go as they did (figures=full)." in plan(gpunion)
    assert "drawn anew" not in gpunion.out
    assert "with 1 seed." in gpunion.out
    assert "Owners of 1 machine come and go as they did" in plan(gpunion, "--add", "1xA100")
    assert "The others' come" in gpunion.out
    told = plan_as_json(gpunion, "--add", "1xA100")
    assert (told["as_it_was"]["owners_drawn"], told["changed"]["owners_drawn"]) == (0, 1)


def test_jobs_wait_for_a_machine_that_joined_after_them(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.past["machines"] = [{"node": "alpha", "phases": [{"at_s": 72_000.0, "phase": "sharing"}]}]
    assert plan_as_json(gpunion)["as_it_was"]["median_wait_s"] < 72_000.0  # it was there before
    campus.machines = [a_node(lab="robots", runs=[], joined_at="2026-01-01T20:00:00.000Z")]
    assert plan_as_json(gpunion)["as_it_was"]["median_wait_s"] >= 72_000.0


def test_what_is_taken_for_granted_of_an_added_machine_is_told(gpunion: Terminal) -> None:
    shown = plan(gpunion, "--add", "2xA100")  # the campus has one
    assert "2 x A100 more: 40 GiB each, speed 1 (A100: 1); 32 processors, 128 GiB." in shown
    assert "assumed" not in shown
    shown = plan(gpunion, "--add", "2xH100-80GB")
    assert "2 x H100-80GB more: 80 GiB each, speed 3 " in shown
    assert "assumed" not in shown
    shown = plan(gpunion, "--add", "2xH100")
    assert "Its memory is assumed." in shown
    assert "Its speed" not in shown


def test_a_model_that_nobody_knows_is_told_with_the_nearest_name(gpunion: Terminal) -> None:
    shown = plan(gpunion, "--add", "2xRXT4090")
    assert "2 x RXT4090 more: 24 GiB each, speed 1 " in shown
    assert "RXT4090 is no model that is known; did you mean RTX4090? Its speed is assumed." in shown
    [told] = plan_as_json(gpunion, "--add", "2xRXT4090")["added"]
    assert (told["known"], told["did_you_mean"], told["gpu_memory_known"]) == (False, "RTX4090", False)
    assert "potato is no model that is known. Its speed" in plan(gpunion, "--add", "1xpotato")


def test_a_campus_that_is_compared_with_itself_is_told_to_be(gpunion: Terminal) -> None:
    assert "this only tries the simulation" in plan(gpunion)
    assert "this only tries" not in plan(gpunion, "--add", "1xA100")
