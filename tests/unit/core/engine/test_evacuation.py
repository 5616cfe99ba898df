"""A machine whose lending will end, and guests who could not all be saved within its notice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.reports import DepartureForetold
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB
from gpunion.policy.checkpoint_timing.interval import FixedInterval
from gpunion.policy.policies import BASELINE, Policies
from tests.builders import Headquarters, facts, timers_of, whys
from tests.builders.gangs import RUNS, a_gang_spec

# Nobody saves by the clock for as long as these tests last.
UNASKED = replace(BASELINE, checkpointing=FixedInterval(every_s=86_400.0))
BUNDLE = replace(UNASKED, evacuates=True)
ENDS_IN_S = 7200.0
NOTICE_S = 60.0
# Half of 1 Gb/s for less than a minute: one of these fits, two do not.
STATE_BYTES = 2 * GIB


def two_guests(policies: Policies = BUNDLE, *, bytes_each: int = STATE_BYTES) -> Headquarters:
    """Both have saved once, the first of them ten minutes before the other."""
    headquarters = Headquarters(policies=policies)
    headquarters.joins("alpha", facts(gpus=2))
    for job in ("one", "two"):
        headquarters.submits(job)
        headquarters.started(f"{job}-e1")
    for job in ("one", "two"):
        headquarters.fires(f"checkpoint:{job}-e1")
        headquarters.captured(f"{job}-e1-c1", step=1)
        headquarters.durable(f"{job}-e1-c1", step=1, shipped_bytes=bytes_each)
        headquarters.later(600.0)
    return headquarters


def foretold(headquarters: Headquarters, in_s: float | None = ENDS_IN_S) -> float | None:
    """When it is looked at again."""
    at_s = None if in_s is None else headquarters.now_s + in_s
    return timers_of(headquarters.reported("alpha", DepartureForetold(at_s=at_s))).get("evacuate:alpha")


def test_who_loses_most_per_byte_saves_ahead_of_the_notice_and_the_rest_fits_it() -> None:
    headquarters = two_guests()
    at_s = foretold(headquarters)
    assert at_s is not None
    # Both take their turn on half of what a reclaim may use: more than a minute each.
    assert 120.0 < headquarters.now_s + ENDS_IN_S - NOTICE_S - at_s < 600.0
    headquarters.now_s = at_s
    asked = headquarters.fires("evacuate:alpha")
    assert whys(asked) == [Why.SAVES_AHEAD]
    assert timers_of(asked)["checkpoint:one-e1"] == at_s
    assert "checkpoint:two-e1" not in timers_of(asked)
    assert "would not all fit the notice of 60 s" in asked.reasons[0].sentence()
    headquarters.fires("checkpoint:one-e1")
    headquarters.later(90.0).captured("one-e1-c2", step=9)
    arrived = headquarters.durable("one-e1-c2", step=9, shipped_bytes=STATE_BYTES)
    assert Why.SAVES_AHEAD not in whys(arrived)  # the other one alone fits


def test_who_does_not_answer_is_asked_once_and_the_next_has_its_turn() -> None:
    headquarters = two_guests(bytes_each=2 * STATE_BYTES)  # neither fits alone
    headquarters.now_s = foretold(headquarters) or 0.0
    headquarters.fires("evacuate:alpha")
    headquarters.fires("checkpoint:one-e1")
    failed = headquarters.later(120.0).not_saved("one-e1-c2")
    assert timers_of(failed)["checkpoint:two-e1"] == headquarters.now_s
    headquarters.fires("checkpoint:two-e1")
    headquarters.later(1.0)
    assert whys(headquarters.fires("evacuate:alpha")) == []


def test_a_gang_that_cannot_be_saved_any_more_keeps_nobody_from_saving_ahead() -> None:
    headquarters = Headquarters(policies=BUNDLE)
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.submits("one")
    headquarters.started("one-e1")
    headquarters.joins("beta")
    headquarters.submits("job", a_gang_spec())
    for run in RUNS:
        headquarters.started(run)
    for first, runs in (("job-e1", RUNS), ("one-e1", ("one-e1",))):
        headquarters.later(600.0).fires(f"checkpoint:{first}")
        for run in runs:
            headquarters.captured(f"{run}-c1", step=1)
            headquarters.durable(f"{run}-c1", step=1, shipped_bytes=2 * STATE_BYTES)
    headquarters.later(600.0).ended("job-r1-e1", EndReason.FINISHED)  # on beta, and waits for the other
    headquarters.now_s = foretold(headquarters) or 0.0
    asked = headquarters.fires("evacuate:alpha")
    assert [(told.subject, told.why) for told in asked.reasons] == [("one", Why.SAVES_AHEAD)]
    assert timers_of(asked)["checkpoint:one-e1"] == headquarters.now_s


@pytest.mark.parametrize("policies", [UNASKED, BUNDLE])
def test_nobody_saves_ahead_where_all_fits_or_the_bundle_does_not_ask(policies: Policies) -> None:
    fits = policies.evacuates
    headquarters = two_guests(policies, bytes_each=GIB // 8 if fits else STATE_BYTES)
    at_s = foretold(headquarters)
    assert (at_s is not None) is fits
    if at_s is not None:
        headquarters.now_s = at_s
        assert whys(headquarters.fires("evacuate:alpha")) == []


def test_an_end_that_is_put_off_or_taken_back_asks_nobody() -> None:
    headquarters = two_guests()
    at_s = foretold(headquarters)
    assert at_s is not None
    later_s = foretold(headquarters, 2 * ENDS_IN_S)
    assert later_s == pytest.approx(at_s + ENDS_IN_S)
    foretold(headquarters, None)
    assert headquarters.fires("evacuate:alpha").effects == ()


def test_within_the_notice_it_is_too_late_to_save_ahead() -> None:
    headquarters = two_guests()
    headquarters.reported("alpha", DepartureForetold(at_s=headquarters.now_s + NOTICE_S))
    assert not [why for _, why in headquarters.told if why.why is Why.SAVES_AHEAD]
