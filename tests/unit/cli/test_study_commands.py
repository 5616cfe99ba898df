"""The simulator from the command line."""

from __future__ import annotations

import io
import json

import pytest

from gpunion.cli.commands.study.sim_fuzz import conclude
from gpunion.cli.context import Context
from gpunion.cli.output.screen import Screen
from gpunion.sim.fault_points import KINDS
from gpunion.sim.fuzz import FuzzOutcome, SeedOutcome
from tests.unit.cli.campus_double import Terminal


def test_fuzzing_counts_every_trouble_and_gives_one_digest(gpunion: Terminal) -> None:
    assert gpunion("sim", "fuzz", "--seeds", "2", "--jobs", "1") == 0
    assert "message_loss" in gpunion.out
    assert "2 seeds" in gpunion.out
    first = gpunion.out.splitlines()[-1]
    assert first.startswith("digest ")
    assert gpunion("sim", "fuzz", "--seeds", "2", "--jobs", "1", "--json") == 0
    shown = json.loads(gpunion.out)
    assert f"digest {shown['digest']}" == first
    assert sorted(shown["digests"]) == ["0", "1"]


def test_a_broken_promise_is_an_error_with_the_one_line_that_repeats_it(gpunion: Terminal) -> None:
    failed = SeedOutcome(seed=17, digest="d", troubles=dict.fromkeys(KINDS, 0), violations=("invariant 3",))
    screen = Screen(out=io.StringIO(), err=io.StringIO())
    assert conclude(Context(screen=screen), FuzzOutcome(seeds=(failed,))) == 1
    assert isinstance(screen.out, io.StringIO)
    lines = screen.out.getvalue().splitlines()
    assert lines[-1] == "repeat with: gpunion sim fuzz --from 17 --seeds 1"
    assert "1 SEED(S) FAILED" in screen.out.getvalue()


def test_many_processes_give_the_same_digest_as_one(gpunion: Terminal) -> None:
    digests = set()
    for jobs in ("1", "2"):
        assert gpunion("sim", "fuzz", "--seeds", "3", "--from", "5", "--jobs", jobs, "--json") == 0
        digests.add(json.loads(gpunion.out)["digest"])
    assert len(digests) == 1


def test_behaviour_is_recorded_and_compared(gpunion: Terminal) -> None:
    assert gpunion("sim", "fuzz", "--seeds", "2", "--jobs", "1", "--record", "seen.txt") == 0
    compare = ("sim", "fuzz", "--seeds", "2", "--jobs", "1", "--behaviour", "seen.txt")
    assert gpunion(*compare) == 0
    assert gpunion.out.splitlines()[-1] == "behaviour: all 2 runs as recorded"
    record = gpunion.here / "seen.txt"
    rows = record.read_text().splitlines()
    record.write_text("\n".join([rows[0], "0 1234 5678", *rows[2:]]))
    assert gpunion(*compare) == 1
    assert "behaviour: 1 of 2 runs differ: 0" in gpunion.out
    assert gpunion(*compare, "--json") == 1
    shown = json.loads(gpunion.out)["behaviour"]
    assert shown["compared"] == 2
    assert [difference["run"] for difference in shown["differing"]] == ["0"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["fuzz", "--behaviour", "nowhere.txt"], 3, "there is no record"),
        (["run", "nowhere.toml"], 3, "there is no scenario nowhere.toml"),
        (["run"], 2, "the following arguments are required: FILE"),
        (["fuzz", "--seeds", "0"], 2, "at least 1 is needed"),
        (["fuzz", "--seed", "3"], 2, "no flag --seed; did you mean --seeds?"),
    ],
)
def test_a_mistake_is_explained(gpunion: Terminal, words: list[str], code: int, message: str) -> None:
    assert gpunion("sim", *words) == code
    assert message in gpunion.err


def test_a_scenario_of_the_checkout_can_be_run_by_its_name(gpunion: Terminal) -> None:
    assert gpunion("sim", "scenarios", "--json") == 0
    names = [scenario["name"] for scenario in json.loads(gpunion.out)["scenarios"]]
    assert "small" in names
    assert gpunion("sim", "run", "small", "--json") == 0
    first = json.loads(gpunion.out)
    assert first["violations"] == []
    assert gpunion("sim", "run", "small", "--seed", str(first["seed"])) == 0
    assert first["digest"] in gpunion.out


def test_a_scenario_that_makes_no_sense_is_refused_with_its_place(gpunion: Terminal) -> None:
    (gpunion.here / "bad.toml").write_text("horizon_s = 10\nnodse = 1\n")
    assert gpunion("sim", "run", "bad.toml") == 2
    assert "nodse" in gpunion.err


def test_scenarios_at_hand_are_listed_with_their_own_words(gpunion: Terminal) -> None:
    (gpunion.here / "scenarios").mkdir()
    (gpunion.here / "scenarios" / "mine.toml").write_text("# Two labs and\n# one job.\nseed = 1\n")
    (gpunion.here / "scenarios" / "broken.toml").write_text("not toml")
    assert gpunion("sim", "scenarios", "--json") == 0
    found = {scenario["name"]: scenario for scenario in json.loads(gpunion.out)["scenarios"]}
    assert found["mine"] == {"name": "mine", "path": "scenarios/mine.toml", "about": "Two labs and one job."}
    assert "cannot be read" in found["broken"]["about"]
