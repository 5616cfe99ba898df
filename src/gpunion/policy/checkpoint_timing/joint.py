"""Checkpoint intervals of several jobs that share a link.

One job alone saves every `tau = sqrt(2 c / u)` (Young 1974): the stall against half an interval of lost
work. Several on one link with a budget of B bytes per second minimise

    sum_i w_i (c_i / tau_i + u_i tau_i / 2)      subject to      sum_i D_i / tau_i <= B

The problem is convex in the rates 1/tau. With the multiplier of the budget, a price per byte,

    tau_i(price) = sqrt(2 (w_i c_i + price D_i) / (w_i u_i))

so the bytes sent fall as the price rises, and the price is found by bisection; it is zero where everything
fits. A job feels it as a longer stall: `c_eff = c + price D / w`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

# A save stands still for at least this long, however small it is: a request, a step's end, an answer.
LEAST_STALL_S = 0.01
LEAST_RATE_PER_S = 1e-12
# Halving this often finds the price to one part in 2^60, beyond what a float keeps.
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Saver:
    """One job on a link. `loss_rate_per_s`: departures after which its last save cannot be had."""

    weight: float
    stall_s: float
    ship_bytes: float
    loss_rate_per_s: float

    def interval_s(self, price: float) -> float:
        """`price` is in weighted seconds per byte."""
        rate = max(self.loss_rate_per_s, LEAST_RATE_PER_S)
        return sqrt(2 * self.effective_stall_s(price) / rate)

    def effective_stall_s(self, price: float) -> float:
        return max(self.stall_s, LEAST_STALL_S) + price * self.ship_bytes / self.weight


def price_of_a_byte(savers: Sequence[Saver], budget_bytes_per_s: float) -> float:
    """Zero where all fit; infinite where there is no budget at all and somebody has bytes to send."""
    if traffic_bytes_per_s(savers, 0.0) <= budget_bytes_per_s:
        return 0.0
    if budget_bytes_per_s <= 0.0:
        return inf
    low, high = 0.0, 1e-12
    while traffic_bytes_per_s(savers, high) > budget_bytes_per_s:
        low, high = high, high * 4
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if traffic_bytes_per_s(savers, middle) > budget_bytes_per_s:
            low = middle
        else:
            high = middle
    return high


def traffic_bytes_per_s(savers: Sequence[Saver], price: float) -> float:
    return sum(saver.ship_bytes / saver.interval_s(price) for saver in savers)


def unpriced_bytes_per_s(stall_s: float, ship_bytes: float, loss_rate_per_s: float) -> float:
    """What one job sends where bytes cost nothing; its weight does not count then."""
    rate = max(loss_rate_per_s, LEAST_RATE_PER_S)
    return ship_bytes / sqrt(2 * max(stall_s, LEAST_STALL_S) / rate)


def intervals_s(savers: Sequence[Saver], budget_bytes_per_s: float) -> tuple[float, ...]:
    price = price_of_a_byte(savers, budget_bytes_per_s)
    return tuple(inf if price == inf else saver.interval_s(price) for saver in savers)


def cost_per_s(savers: Sequence[Saver], every_s: Sequence[float]) -> float:
    """Weighted seconds lost per second: standing still, and half an interval at every departure."""
    return sum(
        saver.weight * (max(saver.stall_s, LEAST_STALL_S) / tau_s + saver.loss_rate_per_s * tau_s / 2)
        for saver, tau_s in zip(savers, every_s, strict=True)
    )
