"""What GPUs did, a line each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.cli.campus_double import CampusDouble, Json, Terminal
from tests.unit.cli.test_operator_commands import a_node

SINCE = datetime(2026, 1, 1, 13, 37, tzinfo=UTC)
HOURS = SINCE.replace(minute=0)


def a_stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def a_point(utilisation: float | None, at: datetime = HOURS, **changes: object) -> Json:
    point: Json = {
        "at": a_stamp(at), "seen_s": 60.0, "utilisation": utilisation, "memory_share": 0.5,
        "temperature_c": 71.0, "power_w": 250.0,
    }  # fmt: skip
    return {**point, **changes}


def by_the_hour(*utilisations: float | None) -> list[Json]:
    return [a_point(one, HOURS + timedelta(hours=number)) for number, one in enumerate(utilisations)]


def a_gpu(*points: Json, node: str = "alpha") -> Json:
    return {"node": node, "index": 0, "uuid": "GPU-1", "model": "NVIDIA A100", "points": list(points)}


def seen(*gpus: Json, since: datetime = SINCE, point_s: float = 3600.0, left_out: bool = False) -> Json:
    return {"since": a_stamp(since), "point_s": point_s, "gpus": list(gpus), "left_out": left_out}


def over_time(shown: str, node: str = "alpha") -> str:
    lines = shown.splitlines()
    [head] = [line for line in lines if line.startswith("NODE")]
    [line] = [line for line in lines if line.startswith(f"{node} ")]
    return line[head.index("OVER TIME") :]


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def enter(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield enter
    monkeypatch.undo()
    time.tzset()


def test_a_gpu_has_a_line_with_its_mean_and_its_peaks(gpunion: Terminal, campus: CampusDouble) -> None:
    points = (a_point(1.0), a_point(0.0, temperature_c=80.0), a_point(None, power_w=None))
    campus.gpus_seen = seen(a_gpu(*points))
    assert gpunion("usage", "gpus", "--node", "alpha", "--since", "2h") == 0
    [line] = [line for line in gpunion.out.splitlines() if line.startswith("alpha")]
    assert line.split() == [*("alpha", "0", "A100", "3", "min", "50%", "50%", "80", "C", "250"), "+"]
    assert campus.gpus_asked == (7200.0, "alpha")


def test_a_sign_stands_where_its_hour_is_and_hours_that_nobody_saw_stay_blank(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    ends = a_gpu(a_point(1.0), a_point(0.0, HOURS + timedelta(hours=24)), node="ends")
    middle = a_gpu(a_point(0.55, HOURS + timedelta(hours=12)), node="middle")
    campus.gpus_seen = seen(ends, middle)
    assert gpunion("usage", "gpus") == 0
    assert "OVER TIME: a sign is 1 h, a blank was not seen." in gpunion.out
    # The day began within an hour and ends within one, so that it touches 25.
    assert over_time(gpunion.out, "ends") == "@" + " " * 23 + "_"
    assert over_time(gpunion.out, "middle") == " " * 12 + "+"


def test_a_week_has_as_many_signs_as_a_day(gpunion: Terminal, campus: CampusDouble) -> None:
    week = by_the_hour(*[0.0] * 168, 1.0)
    campus.gpus_seen = seen(a_gpu(*week))
    assert gpunion("usage", "gpus", "--since", "7d") == 0
    assert "a sign is 7 h," in gpunion.out
    assert over_time(gpunion.out) == "_" * 24 + "@"


def test_minutes_are_put_where_they_belong_too(gpunion: Terminal, campus: CampusDouble) -> None:
    points = [a_point(1.0, SINCE + timedelta(minutes=minute)) for minute in (0, 1, 60)]
    campus.gpus_seen = seen(a_gpu(*points), point_s=60.0)
    assert gpunion("usage", "gpus", "--node", "alpha", "--since", "2h") == 0
    assert "a sign is 5 min," in gpunion.out
    assert over_time(gpunion.out) == "@" + " " * 11 + "@"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Europe/Berlin"])
def test_where_a_sign_stands_does_not_depend_on_clocks_on_the_wall(
    gpunion: Terminal, campus: CampusDouble, zone: str, in_zone: Callable[[str], None]
) -> None:
    """In the night of 29 March clocks in Berlin are put forward."""
    in_zone(zone)
    since = datetime(2026, 3, 28, 12, tzinfo=UTC)
    points = [a_point(1.0, since + timedelta(hours=hour)) for hour in (0, 12, 14, 23)]
    campus.gpus_seen = seen(a_gpu(*points), since=since)
    assert gpunion("usage", "gpus") == 0
    assert over_time(gpunion.out) == "@" + " " * 11 + "@ @" + " " * 8 + "@"


def test_many_points_fit_into_a_line(gpunion: Terminal, campus: CampusDouble) -> None:
    points = [a_point(0.5, HOURS + timedelta(minutes=minute)) for minute in range(1440)]
    campus.gpus_seen = seen(a_gpu(*points), since=HOURS, point_s=60.0, left_out=True)
    assert gpunion("usage", "gpus", "--node", "alpha", "--since", "24h") == 0
    assert over_time(gpunion.out) == "+" * 24
    assert "There is more before, too much for one answer" in gpunion.out
    assert all(len(line) <= 100 for line in gpunion.out.splitlines())


def test_the_axis_begins_with_what_is_told_where_older_points_are_left_out(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.gpus_seen = seen(a_gpu(*by_the_hour(*[1.0] * 12)), since=HOURS - timedelta(days=6), left_out=True)
    assert gpunion("usage", "gpus", "--since", "7d") == 0
    assert "a sign is 1 h," in gpunion.out
    assert over_time(gpunion.out) == "@" * 12


def test_nothing_seen_is_told_with_why(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.gpus_seen = seen()
    assert gpunion("usage", "gpus") == 0
    assert "No GPU was seen then" in gpunion.out


def test_a_machine_that_is_not_there_is_no_machine_without_figures(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.gpus_seen, campus.machines = seen(), [a_node()]
    assert gpunion("usage", "gpus", "--node", "alpha") == 0
    assert gpunion("usage", "gpus", "--node", "nope") == 3
    assert "there is no machine nope" in gpunion.err
    campus.gpus_seen = seen(a_gpu(a_point(1.0), node="removed"))
    assert gpunion("usage", "gpus", "--node", "removed") == 0
