"""Max-min fair rates: nobody can get more without somebody who has no more than them getting less.

Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): raise all rates together; a flow stops
when its own cap or one of its links is full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

# Rates below a bit a second are rounding, not traffic.
NOTHING_BPS = 1.0


class Wanting(Protocol):
    """One flow's way through the links, and the most it may use (None: whatever is left)."""

    @property
    def links(self) -> tuple[str, ...]: ...

    @property
    def cap_bps(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    links: tuple[str, ...]
    cap_bps: float | None = None


def max_min_rates(demands: Sequence[Wanting], capacity_bps: Mapping[str, float]) -> list[float]:
    """The rate of each demand, in their order."""
    if len(demands) == 1:  # most of the time
        return [_alone(demands[0], capacity_bps)]
    as_asked = _as_asked(demands, capacity_bps)
    if as_asked is not None:
        return as_asked
    rates = [0.0] * len(demands)
    left: dict[str, float] = {}
    users: dict[str, int] = {}
    growing = list(range(len(demands)))
    for demand in demands:
        for link in demand.links:
            users[link] = users.get(link, 0) + 1
            left[link] = capacity_bps[link]
    while growing:
        step = _room(demands, rates, growing, left, users)
        for index in growing:
            rates[index] += step
        full = []
        for link, count in users.items():
            left[link] -= step * count
            if left[link] <= NOTHING_BPS:
                full.append(link)
        kept = [index for index in growing if not _is_full(demands[index], rates[index], full)]
        if len(kept) == len(growing):
            break  # rounding left a sliver nobody can use
        still = set(kept)
        for index in growing:
            if index not in still:
                for link in demands[index].links:
                    users[link] -= 1
        growing = kept
    return rates


def _as_asked(demands: Sequence[Wanting], capacity_bps: Mapping[str, float]) -> list[float] | None:
    """Everybody's cap, where all of them fit: saves are capped so low that they nearly always do."""
    rates: list[float] = []
    left: dict[str, float] = {}
    for demand in demands:
        cap_bps = demand.cap_bps
        if cap_bps is None:
            return None
        rates.append(cap_bps)
        for link in demand.links:
            left_bps = (left[link] if link in left else capacity_bps[link]) - cap_bps
            if left_bps < 0.0:
                return None
            left[link] = left_bps
    return rates


def _alone(demand: Wanting, capacity_bps: Mapping[str, float]) -> float:
    widest_bps = max(0.0, min([capacity_bps[link] for link in demand.links], default=0.0))
    return widest_bps if demand.cap_bps is None else min(widest_bps, demand.cap_bps)


def _room(
    demands: Sequence[Wanting],
    rates: Sequence[float],
    growing: Sequence[int],
    left: Mapping[str, float],
    users: Mapping[str, int],
) -> float:
    least = inf
    for link, count in users.items():
        if count > 0:
            share = left[link] / count
            if share < least:
                least = share
    for index in growing:
        cap = demands[index].cap_bps
        if cap is not None and cap - rates[index] < least:
            least = cap - rates[index]
    return max(0.0, least) if least < inf else 0.0


def _is_full(demand: Wanting, rate_bps: float, full_links: Sequence[str]) -> bool:
    if demand.cap_bps is not None and rate_bps >= demand.cap_bps - NOTHING_BPS:
        return True
    return bool(full_links) and not set(full_links).isdisjoint(demand.links)
