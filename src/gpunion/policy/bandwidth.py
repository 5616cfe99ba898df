"""How fast may state be moved?

Reclaim flushes get the least rate that meets their deadline (Karuna's rule, with a margin), in order of
deadline, and together no more than their share of the link. Periodic saves share what is left of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Half of a link at most goes to moving state, so that its owner's traffic stays unharmed.
RECLAIM_SHARE = 0.5
MARGIN = 0.1
# What a sum of rates may be off by the order of adding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    name: str
    size_bits: float
    deadline_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bits per second by flow. A flow that cannot make it under the cap is not in it."""

    by_flow: tuple[tuple[str, float], ...]
    refused: tuple[str, ...]

    def of(self, name: str) -> float | None:
        return dict(self.by_flow).get(name)


def earliest_deadline_first(flows: Iterable[Flow], *, cap_bps: float, now_s: float) -> Rates:
    """Admits flows in order of deadline as long as all keep a steady rate that meets theirs.

    The check is Σ bits_f / (d_f - t) <= cap. It implies the usual Σ_{d_f <= d_k} bits_f <= cap (d_k - t),
    which alone is not enough: that one lets one flow have the whole link first and the next one after it,
    but a rate is handed out once and kept. What the admitted leave over goes to the earliest.
    """
    ordered = sorted(flows, key=lambda flow: (flow.deadline_s, flow.size_bits, flow.name))
    admitted: list[Flow] = []
    refused: list[str] = []
    taken_bps = 0.0
    for flow in ordered:
        left_s = flow.deadline_s - now_s
        if left_s > 0 and taken_bps + flow.size_bits / left_s <= cap_bps * (1 + _ROUNDING):
            taken_bps += flow.size_bits / left_s
            admitted.append(flow)
        else:
            refused.append(flow.name)
    return Rates(by_flow=_share_out(admitted, cap_bps, now_s), refused=tuple(refused))


def reclaim_cap_bps(uplink_bps: float) -> float:
    return RECLAIM_SHARE * uplink_bps


def periodic_rate_bps(uplink_bps: float, flows_on_link: int) -> float:
    """Periodic saves share the same half; a flush on the link takes precedence by the planner's doing."""
    return reclaim_cap_bps(uplink_bps) / max(1, flows_on_link)


def _share_out(flows: list[Flow], cap_bps: float, now_s: float) -> tuple[tuple[str, float], ...]:
    # At least a bit a second: a rate of zero would mean no cap at all.
    least = {f.name: max(1.0, (1 + MARGIN) * f.size_bits / (f.deadline_s - now_s)) for f in flows}
    total = sum(least.values())
    if total > cap_bps:  # the margin does not fit; the bare need does, by admission
        least = {name: rate * cap_bps / total for name, rate in least.items()}
        return tuple(least.items())
    if flows:
        least[flows[0].name] += cap_bps - total
    return tuple(least.items())
