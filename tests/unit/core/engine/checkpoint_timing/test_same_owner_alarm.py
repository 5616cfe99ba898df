"""Saving sooner after a neighbour was taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpunion.policy.checkpoint_timing.same_owner_alarm import BURSTS, Alarm


def test_four_times_the_danger_halves_the_interval():
    assert Alarm(times=4.0).due_s(now_s=100.0, saved_s=0.0, planned_s=1000.0) == 500.0


def test_what_is_overdue_by_then_is_saved_now():
    assert BURSTS.due_s(now_s=800.0, saved_s=0.0, planned_s=1000.0) == 800.0


def test_it_can_be_switched_off():
    assert not Alarm().on
    assert Alarm().due_s(now_s=800.0, saved_s=0.0, planned_s=1000.0) == 1000.0


@given(st.floats(1.0, 100.0), st.floats(0.0, 1e6), st.floats(0.0, 1e5), st.floats(0.0, 1e5))
def test_never_later_than_planned_and_never_in_the_past(times, saved_s, ago_s, ahead_s):
    now_s, planned_s = saved_s + ago_s, saved_s + ago_s + ahead_s
    due_s = Alarm(times=times).due_s(now_s=now_s, saved_s=saved_s, planned_s=planned_s)
    assert now_s <= due_s <= planned_s
