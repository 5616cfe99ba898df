from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, NOT_FOUND, USAGE
from gpunion.cli.main import main
from gpunion.cli.output.screen import Screen
from gpunion.lab.traces import study
from gpunion.lab.traces.lending import read_lending
from gpunion.policy.hazard.book import HazardBook
from tests.unit.traces.files import EXAMPLES, an_office_campus, example


class Terminal:
    def __init__(self, here: Path) -> None:
        self.here = here
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        screen = Screen(out=io.StringIO(), err=io.StringIO())
        code = main(list(words), Context(screen=screen, here=self.here))
        assert isinstance(screen.out, io.StringIO)
        assert isinstance(screen.err, io.StringIO)
        self.out, self.err = screen.out.getvalue(), screen.err.getvalue()
        return code


@pytest.fixture
def gpunion(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def test_a_fit_tells_office_hours(gpunion: Terminal) -> None:
    an_office_campus(gpunion.here)
    assert gpunion("hazard", "fit", "campus.csv") == 0
    assert "4 units" in gpunion.out
    assert gpunion("hazard", "fit", "campus.csv", "--json", "--out", "learned.json") == 0
    shown = json.loads(gpunion.out)
    assert shown["fleet"]["weekday_shape"][12] > 5 * shown["fleet"]["weekday_shape"][3]
    assert len(shown["units"][0]["rate_per_day"]) == 168
    assert sum(hour["departures"] for hour in shown["hours"]) == shown["departures"]
    assert shown["hours"][3]["departures"] == 0
    kept = json.loads((gpunion.here / "learned.json").read_text(encoding="utf-8"))
    assert set(HazardBook.from_plain(kept).histories) == {"lab0", "lab1", "lab2", "lab3"}


def test_a_zone_moves_the_week(gpunion: Terminal) -> None:
    an_office_campus(gpunion.here)
    gpunion("hazard", "fit", "campus.csv", "--json", "--utc-offset", "8")
    shape = json.loads(gpunion.out)["fleet"]["weekday_shape"]
    assert shape[20] > 5 * shape[12]


def test_a_score_is_a_gain_and_a_plot(gpunion: Terminal) -> None:
    an_office_campus(gpunion.here)
    assert gpunion("hazard", "score", "campus.csv", "--json", "--plot", "plot.svg") == 0
    shown = json.loads(gpunion.out)
    assert shown["later"]["gain_nats"] > 0.3
    assert shown["left_out"]["gain_nats"] > 0.3
    assert [len(horizon["reliability"]) for horizon in shown["later"]["horizons"]] == [10, 10, 10]
    plot = ElementTree.fromstring((gpunion.here / "plot.svg").read_text(encoding="utf-8"))
    assert plot.tag.endswith("svg")
    assert gpunion("hazard", "score", "campus.csv", "--no-age", "--idle", "0") == 0
    assert "over the constant rate best in hindsight" in gpunion.out


@pytest.mark.parametrize("name", EXAMPLES)
def test_fit_works_on_every_format(name: str, gpunion: Terminal) -> None:
    example(gpunion.here, name)
    assert gpunion("hazard", "fit", "a.csv", "--idle", "0") == 0, gpunion.err
    assert name in gpunion.out


def test_mistakes_say_what_to_do(gpunion: Terminal) -> None:
    assert gpunion("hazard", "fit", "none.csv") == NOT_FOUND
    assert "there is no file" in gpunion.err
    (gpunion.here / "a.csv").write_text("x,y\n1,2\n", encoding="utf-8")
    assert gpunion("hazard", "score", "a.csv") == USAGE
    assert "Next:" in gpunion.err
    assert gpunion("hazard", "fit", "a.csv", "--utc-offset", "noon") == USAGE
    assert "hours east of UTC" in gpunion.err
    example(gpunion.here, "log-ins")
    assert gpunion("hazard", "fit", "a.csv", "--out", "no/where.json") == ERROR
    assert "cannot write" in gpunion.err


def test_a_record_too_short_to_score_says_so(gpunion: Terminal) -> None:
    (gpunion.here / "a.csv").write_text(
        "trace,t_s,nodes_available\nz,0,2\nz,600,1\nz,99000,1\n", encoding="utf-8"
    )
    assert gpunion("hazard", "score", "a.csv") == ERROR
    assert "longer record" in gpunion.err


def test_a_plot_that_cannot_be_written_says_so(gpunion: Terminal) -> None:
    an_office_campus(gpunion.here, labs=2)
    assert gpunion("hazard", "score", "campus.csv", "--plot", "no/where.svg") == ERROR
    assert "cannot write" in gpunion.err


def test_very_many_units_are_examined_by_a_fair_few(tmp_path: Path) -> None:
    lines = [
        f"t{unit:04d},{at_s},{nodes}" for unit in range(500) for at_s, nodes in ((0, 1), (9000 + unit, 0))
    ]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["trace,t_s,nodes_available", *lines]), encoding="utf-8")
    lending = read_lending(path)
    plan = study.plan_score(lending, 0.0)
    assert len(plan.record) == study.UNITS_EXAMINED_MOST
    assert study.plan_fit(lending, 0.0).steps <= study.UNIT_PERIODS_MOST // 500 + 1
