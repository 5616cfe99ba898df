"""The evacuation invariant: what the guests of a machine have not saved fits its notice.

    sum of bytes to ship <= rate (notice - slowest capture - guard)

Where it does not, the guest with the most work per byte, `w age / D`, is saved before the notice begins; what
it then has still to lose is minutes old. Who alone would not fit is one of them: what was saved ahead is also
what is brought ahead to where it goes (`policy/staging.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from gpunion.domain.ids import RunId
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.checkpoint_timing.turns import SLACK, WORDS_S
from gpunion.policy.reclaim import GUARD_S, GUARD_SHARE, AtStake, work_per_byte

# However much there is to save: who saved longer ago than this has that much to lose again.
AHEAD_MOST_S = 3600.0


def evacuates(guests: Sequence[AtStake], *, notice_s: float, uplink_bps: float) -> bool:
    if not guests:
        return True
    guard_s = GUARD_S + GUARD_SHARE * notice_s
    usable_s = notice_s - guard_s - max(guest.stall_s for guest in guests)
    return 8.0 * sum(guest.ship_bytes for guest in guests) <= reclaim_cap_bps(uplink_bps) * usable_s


def next_to_save(guests: Sequence[AtStake], *, notice_s: float, uplink_bps: float) -> RunId | None:
    """None: the rest fits."""
    if evacuates(guests, notice_s=notice_s, uplink_bps=uplink_bps):
        return None
    return max(guests, key=lambda guest: (work_per_byte(guest), guest.run_id)).run_id


def saved_within_s(guest: AtStake, rate_bps: float) -> float:
    """How long it takes until one that is asked has saved, and that has arrived."""
    return WORDS_S + guest.stall_s + SLACK * 8.0 * guest.ship_bytes / max(rate_bps, 1.0)


def ahead_s(guests: Sequence[AtStake], rate_bps: float) -> float:
    """How long before the notice to begin, so that all could save, one after another."""
    return min(AHEAD_MOST_S, sum(saved_within_s(guest, rate_bps) for guest in guests))
