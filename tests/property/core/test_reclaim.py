"""Whatever guests a wanted node has: the kept ones make it, and a better notice never keeps less."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpunion.domain.ids import RunId
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.reclaim import GUARD_S, GUARD_SHARE, AtStake, FlushWhatFits, Triage
from tests.searching import QUICK

ROUNDING = 1e-6


def guests_with(stalls: st.SearchStrategy[float]) -> st.SearchStrategy[list[AtStake]]:
    one = st.builds(
        AtStake,
        run_id=st.integers(0, 99).map(lambda n: RunId(f"job{n}-e1")),
        stall_s=stalls,
        ship_bytes=st.integers(1, 10**9),
        undurable_s=st.integers(0, 10_000).map(float),
        weight=st.integers(1, 24).map(float),
    )
    return st.lists(one, max_size=7, unique_by=lambda guest: guest.run_id)


guests_of_all_kinds = guests_with(st.integers(0, 90).map(float))
guests_that_stall_alike = guests_with(st.just(2.0))
notices = st.integers(0, 600).map(float)
uplinks = st.sampled_from([1e6, 1e7, 1e8, 1e9, 1e10])


def plan(guests: list[AtStake], left_s: float, uplink_bps: float) -> dict[str, Triage]:
    return {t.run_id: t for t in FlushWhatFits().triage(guests, left_s=left_s, uplink_bps=uplink_bps)}


def saved_work(guests: list[AtStake], left_s: float, uplink_bps: float) -> float:
    fates = plan(guests, left_s, uplink_bps)
    kept = [guest for guest in guests if fates[guest.run_id].rate_bps is not None]
    return sum(guest.weight * max(guest.undurable_s, 1e-3) for guest in kept)


@QUICK
@given(guests=guests_of_all_kinds, left_s=notices, uplink_bps=uplinks)
def test_whoever_is_kept_makes_it_at_the_rate_it_gets(
    guests: list[AtStake], left_s: float, uplink_bps: float
) -> None:
    fates = plan(guests, left_s, uplink_bps)
    usable_s = left_s - GUARD_S - GUARD_SHARE * left_s
    for guest in guests:
        rate_bps = fates[guest.run_id].rate_bps
        if rate_bps is not None:
            assert guest.stall_s + 8 * guest.ship_bytes / rate_bps <= usable_s * (1 + ROUNDING)


@QUICK
@given(guests=guests_of_all_kinds, left_s=notices, uplink_bps=uplinks)
def test_flushes_together_stay_under_the_cap(guests: list[AtStake], left_s: float, uplink_bps: float) -> None:
    rates = [fate.rate_bps or 0.0 for fate in plan(guests, left_s, uplink_bps).values()]
    assert sum(rates) <= reclaim_cap_bps(uplink_bps) * (1 + ROUNDING)


@QUICK
@given(guests=guests_of_all_kinds, left_s=notices, uplink_bps=uplinks)
def test_everybody_has_a_fate(guests: list[AtStake], left_s: float, uplink_bps: float) -> None:
    assert set(plan(guests, left_s, uplink_bps)) == {guest.run_id for guest in guests}


@QUICK
@given(guests=guests_that_stall_alike, left_s=notices, more_s=notices, uplink_bps=uplinks)
def test_with_equal_stalls_a_longer_notice_never_keeps_less_work(
    guests: list[AtStake], left_s: float, more_s: float, uplink_bps: float
) -> None:
    longer = saved_work(guests, left_s + more_s, uplink_bps)
    assert longer >= saved_work(guests, left_s, uplink_bps) * (1 - ROUNDING)


@QUICK
@given(guests=guests_that_stall_alike, left_s=notices, slow_bps=uplinks, fast_bps=uplinks)
def test_with_equal_stalls_more_bandwidth_never_keeps_less_work(
    guests: list[AtStake], left_s: float, slow_bps: float, fast_bps: float
) -> None:
    slow_bps, fast_bps = sorted((slow_bps, fast_bps))
    assert saved_work(guests, left_s, fast_bps) >= saved_work(guests, left_s, slow_bps) * (1 - ROUNDING)


@QUICK
@given(guest=guests_of_all_kinds.filter(bool).map(lambda guests: guests[0]), left_s=notices, more_s=notices)
def test_a_guest_alone_is_kept_by_every_longer_notice(guest: AtStake, left_s: float, more_s: float) -> None:
    if plan([guest], left_s, 1e8)[guest.run_id].rate_bps is not None:
        assert plan([guest], left_s + more_s, 1e8)[guest.run_id].rate_bps is not None
