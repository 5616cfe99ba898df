"""Machines that are lent until a known hour, and guests whose states do not fit the notice."""

from __future__ import annotations

from gpunion.lab.reference.foretold import foretold_campus, lost_and_stalled_s


def test_who_saves_ahead_of_a_foretold_end_loses_far_less_and_hardly_stands_still_more() -> None:
    campus = foretold_campus(1, days=2, state_gib=2, capture_s=30.0)
    lost_s, stalled_s = lost_and_stalled_s(campus, evacuates=True)
    unasked_lost_s, unasked_stalled_s = lost_and_stalled_s(campus, evacuates=False)
    assert lost_s < 0.7 * unasked_lost_s
    assert stalled_s < 1.1 * unasked_stalled_s
