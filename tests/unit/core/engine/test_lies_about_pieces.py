"""What a machine says of a piece counts as far as it can be true, and spoils nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.profile import Seen
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.timers import TurnOver
from gpunion.domain.resources import GIB
from gpunion.policy.policies import LIVE
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.sizing import sizing_of
from gpunion.policy.windows.turns import TurnBounds
from tests.builders.headquarters import Headquarters
from tests.builders.values import a_spec, facts, some_gpus

WORKED_S = 60.0
FOR_EVER = 4e9


def after(seen: Seen) -> Headquarters:
    """A piece that ended with its window a minute after it began, and what was said of it."""
    headquarters = Headquarters(policies=LIVE)
    headquarters.joins("alpha", facts(gpus=some_gpus(memory_gib=24)))
    headquarters.submits("job", replace(a_spec(), atomizable=True))
    headquarters.started()
    headquarters.now_s += WORKED_S
    headquarters.ended("job-e1", EndReason.SAVED, step=50, saved_for=EndReason.WINDOW, seen=seen)
    return headquarters


@pytest.mark.parametrize(
    "seen",
    [
        Seen(steps=10**9, step_s=1.0, worst_step_s=FOR_EVER, step_sd_s=FOR_EVER),
        Seen(begin_s=FOR_EVER, save_s=FOR_EVER),
        Seen(peak_bytes=10**15, foretold_s=1e-9, took_s=FOR_EVER),
        Seen(steps=3, step_s=FOR_EVER),
        Seen(steps=10**9, step_s=1e-300),
    ],
)
def test_no_piece_took_longer_or_had_more_than_there_was(seen: Seen) -> None:
    headquarters = after(seen)
    profile = headquarters.job().profile
    assert profile is not None
    there_s = headquarters.now_s - headquarters.run().ordered_s
    assert profile.steps * profile.step_s <= 1.05 * there_s
    assert all(told_s <= there_s for told_s in (*profile.begins_s, *profile.saves_s, profile.worst_step_s))
    assert all(peak <= 24 * GIB for peak in profile.peaks_bytes)
    # What is foretold of it stays within what a day can have.
    assert sizing_of(profile, headquarters.job().cost).overhead_s < 86_400.0
    assert headquarters.job().phase in (JobPhase.BETWEEN, JobPhase.STARTING)


@pytest.mark.parametrize("step_s", [1e-300, 1e-305, 1e-320])
def test_steps_that_take_no_time_keep_no_turn_from_being_cleared(step_s: float) -> None:
    policies = replace(LIVE, windows=WindowPolicy(bounds=TurnBounds(least_s=60.0, most_s=120.0)))
    headquarters = Headquarters(policies=policies)
    headquarters.joins("alpha")
    headquarters.submits("job", replace(a_spec(), atomizable=True, expected_s=3e7))
    headquarters.started()
    headquarters.later(WORKED_S)
    said = Seen(steps=5, step_s=step_s)
    headquarters.ended("job-e1", EndReason.SAVED, step=50, saved_for=EndReason.WINDOW, seen=said)
    profile = headquarters.job().profile
    assert profile is not None
    assert (profile.steps, profile.step_s) == (0, 0.0)
    headquarters.submits("other", replace(a_spec(), atomizable=True))
    headquarters.started("job-e2")
    headquarters.later(400).hears(TimerFired(timer=TurnOver()))
    assert headquarters.job("other").promised is not None


def test_a_report_about_windows_of_a_job_that_asked_for_none_teaches_nothing() -> None:
    headquarters = Headquarters(policies=LIVE)
    headquarters.joins("alpha")
    headquarters.submits("job", a_spec())
    headquarters.started()
    headquarters.now_s += WORKED_S
    headquarters.ended("job-e1", EndReason.FINISHED, step=50, seen=Seen(steps=10, step_s=1.0))
    assert headquarters.job().profile is None


def test_a_machine_that_ends_a_window_without_an_end_makes_nobody_less_believed() -> None:
    headquarters = Headquarters(policies=LIVE)
    headquarters.joins("alpha", facts(gpus=some_gpus(memory_gib=24)))
    headquarters.submits("job", replace(a_spec(), atomizable=True, expected_s=600.0))
    headquarters.started()
    headquarters.now_s += WORKED_S
    headquarters.ended("job-e1", EndReason.WINDOW, step=0)
    job = headquarters.job()
    assert job.profile is not None
    assert (job.profile.misses, job.profile.stretch) == (0, 1.0)
    assert headquarters.state.memories.programs_of(job.spec.owner) == {}
    assert job.phase in (JobPhase.BETWEEN, JobPhase.STARTING)
