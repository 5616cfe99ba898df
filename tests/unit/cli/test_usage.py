"""Who used and lent how much, as tables and as lines for a spreadsheet."""

from __future__ import annotations

import csv
import json

from tests.unit.cli.campus_double import CampusDouble, Json, Terminal

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


def test_a_time_in_which_nothing_happened_says_where_to_look(gpunion: Terminal, campus: CampusDouble) -> None:
    nothing = {"people": [], "labs": [], "interruptions": [], "used_gpu_h": 0.0}
    campus.used = a_week(**nothing, history_trouble="usage.db: disk is full")
    assert gpunion("usage") == 0
    assert "Nobody used or lent anything then" in gpunion.out
    assert "disk is full" in gpunion.out
