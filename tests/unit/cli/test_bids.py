"""What a job in windows bids for, as its owner narrows it on the command line."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli.campus_double import CampusDouble, Terminal, a_job

JOB = a_job()["id"]


def hands_in(campus: CampusDouble, **changes: Any) -> None:
    campus.known[JOB] = a_job(atomizable=True, **changes)


def test_bids_are_shown_narrowed_and_widened(gpunion: Terminal, campus: CampusDouble) -> None:
    hands_in(campus)
    campus.machines = [{"id": name, "phase": "sharing"} for name in ("a", "b", "c")]
    assert gpunion("bids", "train") == 0
    assert "bids for all windows that it fits" in gpunion.out
    assert gpunion("bids", "train", "--longest", "30m", "--not-on", "b", "--not-on", "c") == 0
    assert "in pieces of 30 min at most, not on b, c" in gpunion.out
    assert gpunion("bids", "train", "--anywhere", "--json") == 0
    assert json.loads(gpunion.out)["not_on"] == []
    assert campus.known[JOB]["windows"]["longest_s"] == 1800.0


def test_a_misspelt_machine_is_told_and_changes_nothing(gpunion: Terminal, campus: CampusDouble) -> None:
    hands_in(campus)
    campus.machines = [{"id": name, "phase": "sharing"} for name in ("lab-pc-3", "alpha")]
    assert gpunion("bids", "train", "--not-on", "alpha") == 0
    assert gpunion("bids", "train", "--longest", "30m", "--not-on", "lab-pc3") == 3
    assert "there is no machine 'lab-pc3'; did you mean lab-pc-3?" in gpunion.err
    windows = campus.known[JOB]["windows"]
    assert (windows["not_on"], windows["longest_s"]) == (["alpha"], None)


def test_a_job_can_be_held_back_and_let_go(gpunion: Terminal, campus: CampusDouble) -> None:
    hands_in(campus)
    assert gpunion("bids", "train", "--none") == 0
    assert "bids for nothing, until gpunion bids 00000001 --again" in gpunion.out
    assert gpunion("bids", "train", "--again") == 0
    assert campus.known[JOB]["windows"]["bid"] is True


def test_a_job_that_runs_as_it_likes_bids_for_nothing(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known[JOB] = a_job()
    assert gpunion("bids", "train") != 0
    assert "does not run in windows" in gpunion.err


def test_why_tells_what_a_job_is_let_bid_for(gpunion: Terminal, campus: CampusDouble) -> None:
    pieces = {"windows": 2, "worked_s": 60.0, "overhead_s": 6.0, "ends_at": None, "because": None}
    pieces["believed"] = 0.4
    hands_in(campus, pieces=pieces)
    assert gpunion("why", "train") == 0
    assert "It bids for" not in gpunion.out
    assert "What is said of it counts for 40 %" in gpunion.out
    assert gpunion("bids", "train", "--longest", "30m") == 0
    assert gpunion("why", "train") == 0
    assert "It bids for windows, in pieces of 30 min at most." in gpunion.out
