"""What is saved inside a notice, and what is given up?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from gpunion.domain.ids import RunId
from gpunion.policy.bandwidth import Flow, earliest_deadline_first, reclaim_cap_bps

# What the plan leaves unused at the end of a notice: sealing, a late packet, a slow disk.
GUARD_S = 1.0
GUARD_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class AtStake:
    """One guest of a node that is wanted back."""

    run_id: RunId
    stall_s: float
    ship_bytes: int
    undurable_s: float  # work since its last durable checkpoint
    weight: float  # GPUs times priority


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """One guest's fate: `rate_bps` None means it is not worth or not possible to flush it.

    `needs_s`: how long its save takes; of one that is given up, with what had to stay unused at the end.
    """

    run_id: RunId
    rate_bps: float | None
    needs_s: float


class ReclaimPlan(Protocol):
    def triage(self, guests: Iterable[AtStake], *, left_s: float, uplink_bps: float) -> list[Triage]: ...


class FlushWhatFits:
    """Flush everything that fits; if not everything does, keep the most work per byte."""

    def triage(self, guests: Iterable[AtStake], *, left_s: float, uplink_bps: float) -> list[Triage]:
        guests = sorted(guests, key=lambda guest: guest.run_id)
        cap_bps = reclaim_cap_bps(uplink_bps)
        guard_s = GUARD_S + GUARD_SHARE * left_s
        kept = self._keep(guests, left_s - guard_s, cap_bps)
        flows = [
            Flow(name=g.run_id, size_bits=8.0 * g.ship_bytes, deadline_s=left_s - guard_s - g.stall_s)
            for g in kept
        ]
        rates = earliest_deadline_first(flows, cap_bps=cap_bps, now_s=0.0)
        fates: list[Triage] = []
        for guest in guests:
            rate_bps = rates.of(guest.run_id)
            needs_s = (
                guest.stall_s + 8.0 * guest.ship_bytes / cap_bps + (guard_s if rate_bps is None else 0.0)
            )
            fates.append(Triage(run_id=guest.run_id, rate_bps=rate_bps, needs_s=needs_s))
        return fates

    def _keep(self, guests: list[AtStake], usable_s: float, cap_bps: float) -> list[AtStake]:
        """Greedy by saved work per byte. Each flow may start only after its own capture."""
        kept: list[AtStake] = []
        for guest in sorted(guests, key=_worth, reverse=True):
            together = [*kept, guest]
            longest_stall_s = max(g.stall_s for g in together)
            bits = sum(8.0 * g.ship_bytes for g in together)
            if bits <= cap_bps * (usable_s - longest_stall_s):
                kept = together
        return kept


class NeverFlush:
    """For comparisons: a notice is of no use, everybody falls back."""

    def triage(self, guests: Iterable[AtStake], *, left_s: float, uplink_bps: float) -> list[Triage]:
        return [
            Triage(run_id=g.run_id, rate_bps=None, needs_s=g.stall_s)
            for g in sorted(guests, key=lambda g: g.run_id)
        ]


def work_per_byte(guest: AtStake) -> float:
    return guest.weight * max(guest.undurable_s, 1e-3) / max(guest.ship_bytes, 1)


def _worth(guest: AtStake) -> tuple[float, str]:
    return (work_per_byte(guest), guest.run_id)
