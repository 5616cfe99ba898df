"""What an operator is shown of when machines are wanted back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.unit.cli.campus_double import CampusDouble, Terminal

RATES = [0.5 if 9 <= hour % 24 < 17 and hour < 120 else 0.01 for hour in range(168)]


def an_outlook(**changes: Any) -> dict[str, Any]:
    stays = [{"hours": hours, "chance": 0.9 - hours / 20, "cautious": 0.2} for hours in (1.0, 4.0, 12.0)]
    node = {
        "node": "alpha", "phase": "sharing", "based_on": "own", "weeks_seen": 6.04, "departures_seen": 31,
        "stays": stays, "expected_s": 20_000.0,
        "calibration": [{"forecasts": 12, "foretold": 0.22, "seen": 0.25}],
    }  # fmt: skip
    return {**node, **changes}


def a_campus(*nodes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answer = {
        "learns": True, "learned_at": "2026-01-01T00:00:00.000Z", "next_lesson_at": None, "horizon_h": 4.0,
        "announced_share": 0.6, "signs": [], "nodes": list(nodes), "calibration": an_outlook()["calibration"],
    }  # fmt: skip
    return {**answer, **changes}


def test_all_machines_are_listed_with_their_chances(gpunion: Terminal, campus: CampusDouble) -> None:
    away = an_outlook(node="beta", phase="reclaimed", stays=[], expected_s=None, based_on="constant")
    campus.outlook = a_campus(an_outlook(), away)
    assert gpunion("nodes", "hazard") == 0
    alpha, beta = gpunion.out.splitlines()[1:3]
    assert "85%" in alpha
    assert "about 5 h 33 min" in alpha
    assert "its own week (31 departures in 6.0 weeks)" in alpha
    assert beta.split()[2:6] == ["-"] * 4
    assert "60%" in gpunion.out
    assert "22%" in gpunion.out
    assert gpunion("nodes", "hazard", "--json") == 0
    assert json.loads(gpunion.out) == campus.outlook


def test_what_signs_were_worth_is_shown_of_all_machines_together(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    signs = [
        {"shown": [], "departures": 1.0, "expected": 9.0, "factor": 0.4},
        {"shown": ["keyboard", "owner-on-gpu"], "departures": 8.0, "expected": 0.5, "factor": 3.5},
    ]
    campus.outlook = a_campus(an_outlook(), signs=signs)
    assert gpunion("nodes", "hazard") == 0
    none, both = (line for line in gpunion.out.splitlines() if " x " in line)
    assert none.split() == ["none", "of", "them", "1.0", "9.0", "x", "0.4"]
    assert both.split() == ["keyboard", "and", "owner-on-gpu", "8.0", "0.5", "x", "3.5"]


def test_one_machine_has_its_week_drawn_in_letters(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.outlook = an_outlook(departures_per_h=RATES, learned_at=None, learns=True)
    assert gpunion("nodes", "hazard", "alpha", "--plot") == 0
    week = {
        line.split()[0]: line.split()[1] for line in gpunion.out.splitlines() if line[2:5] in ("Mon", "Sun")
    }
    assert week["Mon"] == "▁" * 9 + "█" * 8 + "▁" * 7
    assert week["Sun"] == "▁" * 24
    assert "first lesson" in gpunion.out


def test_plots_are_files_of_their_own(gpunion: Terminal, campus: CampusDouble, tmp_path: Path) -> None:
    campus.outlook = an_outlook(node="<alpha>", departures_per_h=RATES, learned_at=None, learns=True)
    assert gpunion("nodes", "hazard", "alpha", "--plot", str(tmp_path / "alpha.svg")) == 0
    campus.outlook = a_campus(an_outlook())
    assert gpunion("nodes", "hazard", "--plot", str(tmp_path / "all.svg")) == 0
    one = ElementTree.parse(tmp_path / "alpha.svg").getroot()
    everybody = ElementTree.parse(tmp_path / "all.svg").getroot()
    assert sum("Mon" in (title.text or "") for title in one.iter("{http://www.w3.org/2000/svg}title")) == 24
    assert sum(1 for _ in everybody.iter("{http://www.w3.org/2000/svg}circle")) == 1


def test_a_plot_that_cannot_be_made_is_refused_with_what_to_do(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    assert gpunion("nodes", "hazard", "--plot") == 2
    assert "NODE --plot" in gpunion.err
    assert gpunion("nodes", "hazard", "--plot", "alpha") == 2
    assert ".svg" in gpunion.err
    campus.outlook = a_campus(an_outlook())
    assert gpunion("nodes", "hazard", "--plot", "/nonexistent/alpha.svg") == 1
    assert "/nonexistent/alpha.svg" in gpunion.err
    assert "a bug" not in gpunion.err


def test_a_coordinator_that_does_not_learn_says_so(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.outlook = a_campus(an_outlook(), learns=False)
    assert gpunion("nodes", "hazard") == 0
    assert "do not learn" in gpunion.out
    campus.outlook = a_campus()
    assert gpunion("nodes", "hazard") == 0
    assert "No machine has joined" in gpunion.out
