"""What cannot happen is a bug: it is raised, and nothing has changed."""

from __future__ import annotations

import pytest

from gpunion.domain.events import TimerFired
from tests.builders import Headquarters, LoneAgent, a_running_job


def test_a_timer_nobody_knows_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no timer is called 'tea'"):
        Headquarters().engine.handle(0.0, TimerFired(key="tea"))


def test_a_timer_no_agent_knows_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no timer is called 'tea'"):
        LoneAgent().hears(TimerFired(key="tea"))


def test_a_bug_while_thinking_leaves_no_trace() -> None:
    headquarters = a_running_job()
    before = headquarters.state.records()
    with pytest.raises(ValueError):
        headquarters.engine.handle(0.0, TimerFired(key="tea:job-e1"))
    assert headquarters.state.records() == before
