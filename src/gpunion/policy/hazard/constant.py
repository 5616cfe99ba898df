"""A constant rate per node: departures over time lent, shrunk to a prior until there is evidence."""

from __future__ import annotations

from typing import Protocol

from gpunion.domain.node import Node

# GPUnion's campus saw 0.5 to 3.2 interruptions a day and node (HotNets '25); the prior is one a day,
# worth half a day of evidence.
PRIOR_DEPARTURES = 0.5
PRIOR_EXPOSURE_S = 0.5 * 86_400.0


class Hazard(Protocol):
    def rate_per_s(self, node: Node, now_s: float) -> float:
        """Expected departures per second at this time. Never zero."""
        ...


class ConstantHazard:
    def rate_per_s(self, node: Node, now_s: float) -> float:
        exposure_s = max(0.0, now_s - node.joined_s)
        return (node.departures + PRIOR_DEPARTURES) / (exposure_s + PRIOR_EXPOSURE_S)
