"""Who used and lent how much, as tables and as lines for a spreadsheet."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gpunion.cli.output.times import time_span
from tests.unit.cli.campus_double import CampusDouble, Json, Terminal
from tests.unit.cli.test_operator_commands import a_node

BY_HOUR = [0] * 168
BY_HOUR[9], BY_HOUR[24 + 17] = 3, 12
PERSON: Json = {
    "user": "ada", "lab": "vision", "submitted": 3, "succeeded": 2, "failed": 1, "used_gpu_h": 12.34,
    "borrowed_gpu_h": 10.0,
}  # fmt: skip
LAB: Json = {
    "lab": "robots", "used_gpu_h": 1.0, "borrowed_gpu_h": 0.0, "given_gpu_h": 11.0, "lent_gpu_h": 10.0,
    "open_gpu_h": 22.0, "busy_gpu_h": 11.0, "utilisation": 0.5, "departures": 15,
    "departures_by_hour": BY_HOUR, "watched_gpu_h": 40.0, "own_gpu_h": 10.0, "guest_gpu_h": 8.0,
}  # fmt: skip
CAUSE: Json = {
    "cause": "owner_reclaim", "count": 4, "moved": 3, "anew": 1, "kept_gpu_h": 5.0, "lost_gpu_h": 0.5,
    "stood_still_s": 90.0, "shipped_bytes": 1,
}  # fmt: skip


def a_week(**changes: object) -> Json:
    told: Json = {
        "since": "2026-01-01T00:00:00.000Z", "until": "2026-01-08T00:00:00.000Z",
        "history_since": "2026-01-02T00:00:00.000Z", "history_trouble": "", "used_gpu_h": 12.34,
        "failed_gpu_h": 1.0, "lost_gpu_h": 0.5, "kept_gpu_h": 5.0, "people": [PERSON], "labs": [LAB],
        "interruptions": [CAUSE],
    }  # fmt: skip
    return {**told, **changes}


def test_people_labs_work_and_departures_are_told(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.used = a_week()
    assert gpunion("usage") == 0
    told = gpunion.out.splitlines()
    [ada] = [line for line in told if line.startswith("ada")]
    assert ada.split() == ["ada", "vision", "3", "2", "1", "12.3", "10.0"]
    robots, at_work = [line for line in told if line.startswith("robots")]
    assert at_work.split() == ["robots", "40.0", "25%", "20%", "45%"]
    assert "Without lending they would have worked 25% of the time; lent they worked 45%." in told
    assert robots.split() == [
        "robots",
        "1.0",
        "0.0",
        "10.0",
        "1.0",
        "22.0",
        "50%",
        "15x",
    ]
    assert "Work: 12.3 GPU-hours in all. Jobs that failed had 1.0 of it." in told
    interrupted = told.index("Runs that were interrupted then had done 5.5 since they began:")
    assert told[interrupted + 1] == "5.0 was kept, and 0.500 lost."
    assert any(line.startswith("owner wanted it back") and line.endswith("1 min 30 s") for line in told)
    assert "Mon  .........3.............." in told
    assert "Tue  .................+......" in told
    assert "OPEN, BUSY and WANTED BACK are counted from" in gpunion.out
    assert all(len(line) <= 120 for line in told)
    assert campus.usage_asked == (7 * 86_400.0, None, None)


def test_whom_and_since_when_are_passed_on(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.used = a_week()
    assert gpunion("usage", "--since", "30d", "--lab", "robots", "--user", "ada", "--json") == 0
    assert campus.usage_asked == (30 * 86_400.0, "robots", "ada")
    assert json.loads(gpunion.out) == campus.used


def test_a_spreadsheet_has_a_line_for_each_and_no_formula(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.used = a_week(people=[{**PERSON, "user": "=1+1"}])
    assert gpunion("usage", "--csv") == 0
    person, lab = csv.DictReader(gpunion.out.splitlines())
    assert (person["kind"], person["user"], person["used_gpu_h"]) == ("person", "'=1+1", "12.340")
    assert (lab["kind"], lab["lab"], lab["open_gpu_h"], lab["user"]) == ("lab", "robots", "22.000", "")


def what_next(gpunion: Terminal, campus: CampusDouble, trouble: str) -> str:
    campus.used = a_week(history_trouble=f"/data/usage.db: {trouble}")
    assert gpunion("usage") == 0
    told, next_step = gpunion.out.splitlines()[-2:]
    assert told == f"Their history has trouble: /data/usage.db: {trouble}."
    return next_step


@pytest.mark.parametrize(
    "trouble", ["database disk image is malformed", "a row of GPUs' figures has another length"]
)
def test_a_damaged_history_is_to_be_moved_away(gpunion: Terminal, campus: CampusDouble, trouble: str) -> None:
    assert "move that file away" in what_next(gpunion, campus, trouble)
    assert "df -h" not in gpunion.out


def test_so_is_one_that_is_none(gpunion: Terminal, campus: CampusDouble, tmp_path: Path) -> None:
    (tmp_path / "usage.db").write_bytes(b"no database at all" * 1000)
    with closing(sqlite3.connect(tmp_path / "usage.db")) as connection, pytest.raises(sqlite3.Error) as seen:
        connection.execute("CREATE TABLE some (thing)")
    assert "move that file away" in what_next(gpunion, campus, str(seen.value))


@pytest.mark.parametrize(
    "trouble", ["database or disk is full", "[Errno 13] Permission denied", "disk I/O error"]
)
def test_one_that_has_no_room_needs_a_look_at_its_disk(
    gpunion: Terminal, campus: CampusDouble, trouble: str
) -> None:
    assert "df -h on the coordinator" in what_next(gpunion, campus, trouble)


def test_a_loss_in_a_time_without_work_is_told_too(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.used = a_week(used_gpu_h=0.0)
    assert gpunion("usage") == 0
    assert "owner wanted it back" in gpunion.out


def test_a_time_in_which_nothing_happened_says_where_to_look(gpunion: Terminal, campus: CampusDouble) -> None:
    nothing = {"people": [], "labs": [], "interruptions": [], "used_gpu_h": 0.0}
    campus.used = a_week(**nothing, history_trouble="usage.db: disk is full")
    assert gpunion("usage") == 0
    assert "Nobody used or lent anything then" in gpunion.out
    assert "disk is full" in gpunion.out


def test_a_lab_that_nobody_knows_is_not_one_that_used_nothing(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.used, campus.machines = a_week(people=[], labs=[], interruptions=[]), [a_node(lab="vision")]
    assert gpunion("usage", "--lab", "vision") == 0
    assert gpunion("usage", "--lab", "Nope") == 3
    assert "no machine is of a lab Nope" in gpunion.err
    campus.used = a_week(labs=[])
    assert gpunion("usage", "--lab", "people-only") == 0


def test_lines_for_a_spreadsheet_and_json_are_not_asked_for_at_once(gpunion: Terminal) -> None:
    assert gpunion("usage", "--csv", "--json") == 2
    assert "--csv and --json" in gpunion.err


def test_a_time_that_ends_on_another_day_than_it_began_has_both_dates() -> None:
    began, ended = "2026-01-01T12:00:00.000Z", "2026-01-08T12:00:00.000Z"
    assert re.fullmatch(r"From 2026-01-01 \S+ to 2026-01-08 \S+", time_span(began, ended))
    assert re.fullmatch(r"From 2026-01-01 \S+ to \d\d:01:00", time_span(began, "2026-01-01T12:01:00.000Z"))
