"""A job whose program has ended, as `gpunion ps` and `gpunion why` show it."""

from __future__ import annotations

import pytest

from tests.unit.cli.campus_double import CampusDouble, Terminal, a_job

AN_ID = a_job(7)["id"]
STAMP = "2026-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (None, "its output is being sent"),
        ("there is no room", "its output is not taken: there is no room"),
    ],
)
def test_a_job_whose_program_has_ended_is_not_shown_at_the_step_it_had_reached(
    gpunion: Terminal, campus: CampusDouble, trouble: str | None, words: str
) -> None:
    live = {"run_id": "r", "step": 15, "progress": 0.94}
    finishing = {"since": STAMP, "trouble": trouble}
    campus.known = {AN_ID: a_job(1, phase="finishing", live=live, finishing=finishing) | {"id": AN_ID}}
    assert gpunion("ps") == 0
    assert f"finishing  alpha  {words}  " in gpunion.out
    assert "94%" not in gpunion.out
    assert gpunion("why", AN_ID) == 0
    assert f"({AN_ID}) is finishing on alpha." in gpunion.out
    assert f"Right now: {words}; its program ended " in gpunion.out
