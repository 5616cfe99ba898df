"""A program that ends by itself with "saved, run me again": for its window, or for reasons of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.profile import Seen
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.window import Subjob, WindowEnd
from gpunion.domain.protocol.events import GuestStarted
from gpunion.domain.protocol.reports import RunEnded
from gpunion.engine.agent.windows import EARLY_S
from tests.builders import LoneAgent, a_start, reports

RUN = RunId("job-e1")
WINDOW_S, SAVE_S = 3600.0, 20.0


def ended_for(worked_s: float, seen: Seen | None = None, *, safe_every: int = 1) -> EndReason | None:
    subjob = Subjob(
        ends_s=100.0 + WINDOW_S,
        hard=True,
        end=WindowEnd.KNOWN_END,
        save_s=SAVE_S,
        safe_every=safe_every,
    )
    agent = LoneAgent(now_s=100.0)
    agent.ordered(replace(a_start(RUN), subjob=subjob))
    agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.1))
    while agent.now_s < 100.0 + worked_s:
        agent.now_s = min(100.0 + worked_s, agent.now_s + 10.0)
        agent.renews()
    (report,) = [one for one in reports(agent.exits(code=85, seen=seen)) if isinstance(one, RunEnded)]
    assert report.reason is EndReason.SAVED
    return report.saved_for


def test_one_that_ends_when_its_save_would_only_just_fit_has_ended_its_piece() -> None:
    assert ended_for(WINDOW_S - SAVE_S) is EndReason.WINDOW
    assert ended_for(WINDOW_S - SAVE_S - EARLY_S) is EndReason.WINDOW


@pytest.mark.parametrize("worked_s", [0.0, 1.0, 1800.0, WINDOW_S - SAVE_S - EARLY_S - 1.0])
def test_one_that_ends_long_before_has_reasons_of_its_own(worked_s: float) -> None:
    assert ended_for(worked_s) is None


def test_one_whose_next_step_would_be_too_long_has_ended_its_piece() -> None:
    long = Seen(steps=5, step_s=600.0, worst_step_s=620.0)
    assert ended_for(WINDOW_S - SAVE_S - 590.0, long) is EndReason.WINDOW
    assert ended_for(WINDOW_S - SAVE_S - 1300.0, long) is None
    short = Seen(steps=500, step_s=6.0, worst_step_s=7.0)
    assert ended_for(WINDOW_S - SAVE_S - 590.0, short) is None
    assert ended_for(WINDOW_S - SAVE_S - 590.0, short, safe_every=100) is EndReason.WINDOW
