"""What cannot happen is a bug: it is raised, and nothing has changed."""

from __future__ import annotations

import pytest

from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.timers import LeaseOver, LessonDue
from tests.builders import Headquarters, LoneAgent, a_running_job


def test_a_timer_of_an_agent_is_a_bug_in_a_coordinator() -> None:
    with pytest.raises(AssertionError, match="LeaseOver"):
        Headquarters().engine.handle(0.0, TimerFired(timer=LeaseOver()))  # type: ignore[arg-type]


def test_a_timer_of_a_coordinator_is_a_bug_in_an_agent() -> None:
    with pytest.raises(AssertionError, match="LessonDue"):
        LoneAgent().hears(TimerFired(timer=LessonDue()))  # type: ignore[arg-type]


def test_a_bug_while_thinking_leaves_no_trace() -> None:
    headquarters = a_running_job()
    before = headquarters.state.records()
    with pytest.raises(AssertionError):
        headquarters.engine.handle(0.0, TimerFired(timer=LeaseOver()))  # type: ignore[arg-type]
    assert headquarters.state.records() == before
