"""Leaving one after another: who first, and how long the others may work on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunion.domain.ids import RunId
from gpunion.policy.checkpoint_timing.turns import SLACK, WORDS_S, Leaver, turns

GBPS = 1e9


def a_leaver(name: str = "a", *, stall_s: float = 2.0, ship_bytes: float = 1e9, **more: object) -> Leaver:
    known: dict[str, object] = {"worth": 1.0, "has_place": True, **more}
    return Leaver(run_id=RunId(name), stall_s=stall_s, ship_bytes=ship_bytes, **known)  # type: ignore[arg-type]


def test_who_has_somewhere_to_go_leaves_before_who_has_more_to_lose():
    plan = turns(
        [a_leaver("poor"), a_leaver("homeless", has_place=False, worth=9.0), a_leaver("rich", worth=5.0)],
        usable_s=600.0,
        saved_by_s=595.0,
        rate_bps=GBPS,
    )
    assert plan is not None
    assert [turn.run_id for turn in plan] == ["rich", "poor", "homeless"]


def test_one_alone_may_work_on_until_its_own_save_just_fits():
    plan = turns([a_leaver()], usable_s=100.0, saved_by_s=100.0, rate_bps=GBPS)
    assert plan is not None
    assert plan[0].latest_s == pytest.approx(100.0 - WORDS_S - 2.0 - SLACK * 8.0)


def test_nobody_is_still_saving_when_programs_are_told_to_end():
    plan = turns([a_leaver(ship_bytes=0.0)], usable_s=28.0, saved_by_s=25.0, rate_bps=GBPS)
    assert plan is not None
    assert plan[0].latest_s == pytest.approx(25.0 - WORDS_S - 2.0)


def test_without_time_for_turns_there_are_none():
    assert turns([a_leaver("a"), a_leaver("b")], usable_s=20.0, saved_by_s=20.0, rate_bps=GBPS) is None


leavers = st.lists(
    st.builds(
        Leaver,
        run_id=st.uuids().map(lambda u: RunId(str(u))),
        stall_s=st.floats(0.0, 10.0),
        ship_bytes=st.floats(0.0, 1e10),
        worth=st.floats(0.0, 10.0),
        has_place=st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@given(leavers, st.floats(0.0, 2000.0))
def test_whoever_begins_at_the_latest_is_through_before_the_next_must_begin(some, usable_s):
    plan = turns(some, usable_s=usable_s, saved_by_s=usable_s, rate_bps=GBPS)
    if plan is None:
        return
    needs = {one.run_id: one.needs_s(GBPS) for one in some}
    ends = [turn.latest_s + needs[turn.run_id] for turn in plan]
    for end_s, after_s in zip(ends, [*(turn.latest_s for turn in plan[1:]), usable_s], strict=True):
        assert end_s <= after_s + 1e-6
    assert plan[0].latest_s >= -WORDS_S


@given(leavers, st.floats(0.0, 2000.0), st.floats(0.0, 500.0))
def test_more_notice_never_means_leaving_sooner(some, usable_s, more_s):
    plan = turns(some, usable_s=usable_s, saved_by_s=usable_s, rate_bps=GBPS)
    later = turns(some, usable_s=usable_s + more_s, saved_by_s=usable_s + more_s, rate_bps=GBPS)
    if plan is not None:
        assert later is not None
        assert all(b.latest_s >= a.latest_s - 1e-6 for a, b in zip(plan, later, strict=True))
