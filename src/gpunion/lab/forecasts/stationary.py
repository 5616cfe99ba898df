"""The best a constant rate can know: every departure of a node over every second it was lent.

`ConstantHazard` needs nothing but a node's record; this one has the same book as the weekly hazard, so that a
comparison of the two is about *when* machines leave and not about who has counted better.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.constant import upper_ratio
from gpunion.policy.hazard.profile import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class StationaryHazard:
    book: HazardBook = field(default_factory=HazardBook)
    _rates: dict[NodeId, float] = field(default_factory=dict, compare=False, repr=False)

    def rate_per_s(self, node: Node, now_s: float) -> float:
        if node.id not in self._rates:
            profile = self.book.profile(node.id, Answer.CONSTANT)
            self._rates[node.id] = profile.rate_at(now_s, free_since_s=now_s, factor=1.0)
        return self._rates[node.id]

    def upper_rate_per_s(self, node: Node, now_s: float) -> float:
        departures = self.book.history(node.id).ever_departures
        return self.rate_per_s(node, now_s) * upper_ratio(max(0.5, float(departures)))

    def survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return exp(-self.rate_per_s(node, now_s) * horizon_s)

    def lower_survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return exp(-self.upper_rate_per_s(node, now_s) * horizon_s)
