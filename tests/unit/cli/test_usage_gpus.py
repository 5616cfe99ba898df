"""What GPUs did, a line each."""

from __future__ import annotations

from tests.unit.cli.campus_double import CampusDouble, Json, Terminal


def a_point(utilisation: float | None, **changes: object) -> Json:
    point: Json = {
        "at": "2026-01-01T00:00:00.000Z", "seen_s": 60.0, "utilisation": utilisation, "memory_share": 0.5,
        "temperature_c": 71.0, "power_w": 250.0,
    }  # fmt: skip
    return {**point, **changes}


def a_gpu(*points: Json) -> Json:
    return {"node": "alpha", "index": 0, "uuid": "GPU-1", "model": "A100", "points": list(points)}


def test_a_gpu_has_a_line_with_its_mean_and_its_peaks(gpunion: Terminal, campus: CampusDouble) -> None:
    points = (a_point(1.0), a_point(0.0, temperature_c=80.0), a_point(None, power_w=None))
    campus.gpus_seen = {"since": "2026-01-01T00:00:00.000Z", "gpus": [a_gpu(*points)], "left_out": 0}
    assert gpunion("usage", "gpus", "--node", "alpha", "--since", "2h") == 0
    [line] = [line for line in gpunion.out.splitlines() if line.startswith("alpha")]
    assert line.split() == [
        *("alpha", "0", "A100", "3", "min", "50%", "50%", "80", "C", "250"), "@_",
    ]  # fmt: skip
    assert campus.gpus_asked == (7200.0, "alpha")


def test_many_points_fit_into_a_line(gpunion: Terminal, campus: CampusDouble) -> None:
    gpu = a_gpu(*[a_point(0.5)] * 1440)
    campus.gpus_seen = {"since": "2026-01-01T00:00:00.000Z", "gpus": [gpu], "left_out": 3}
    assert gpunion("usage", "gpus") == 0
    assert gpunion.out.splitlines()[2].endswith("  " + "+" * 24)
    assert "3 older points are left out" in gpunion.out
    assert all(len(line) <= 100 for line in gpunion.out.splitlines())


def test_nothing_seen_is_told_with_why(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.gpus_seen = {"since": "2026-01-01T00:00:00.000Z", "gpus": [], "left_out": 0}
    assert gpunion("usage", "gpus") == 0
    assert "No GPU was seen then" in gpunion.out
