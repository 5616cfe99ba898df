"""A constant rate per node: departures over time lent, shrunk to a prior until there is evidence."""

from __future__ import annotations

from math import exp, sqrt
from typing import Protocol

from gpunion.domain.nodes.node import Node

# GPUnion's campus saw 0.5 to 3.2 interruptions a day and node (HotNets '25); the prior is one a day,
# worth half a day of evidence.
PRIOR_DEPARTURES = 0.5
PRIOR_EXPOSURE_S = 0.5 * 86_400.0


class Hazard(Protocol):
    def rate_per_s(self, node: Node, now_s: float) -> float:
        """Expected departures per second at this time. Never zero."""
        ...


class Survival(Hazard, Protocol):
    """A hazard that also says how likely a node is to stay. In [0, 1], never growing with the horizon."""

    def survival(self, node: Node, now_s: float, horizon_s: float) -> float: ...

    def lower_survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        """The same with the rate we are 80 % sure is not exceeded: what admission asks."""
        ...

    def upper_rate_per_s(self, node: Node, now_s: float) -> float: ...


class ConstantHazard:
    def rate_per_s(self, node: Node, now_s: float) -> float:
        exposure_s = max(0.0, now_s - node.joined_s)
        return (node.departures + PRIOR_DEPARTURES) / (exposure_s + PRIOR_EXPOSURE_S)

    def upper_rate_per_s(self, node: Node, now_s: float) -> float:
        return self.rate_per_s(node, now_s) * upper_ratio(node.departures + PRIOR_DEPARTURES)

    def survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return exp(-self.rate_per_s(node, now_s) * horizon_s)

    def lower_survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return exp(-self.upper_rate_per_s(node, now_s) * horizon_s)


# The 80 % point of the normal distribution: admission wants to be wrong one time in five at most.
_UPPER_Z = 0.8416


def upper_ratio(evidence: float) -> float:
    """The 80 % quantile of a Gamma distribution over its mean (Wilson and Hilferty's cube), at least 1.

    With next to no evidence the distribution is so skewed that its quantile falls below its mean; a rate
    for admission must not.
    """
    root = 1.0 - 1.0 / (9.0 * evidence) + _UPPER_Z / (3.0 * sqrt(evidence))
    return max(1.0, root**3)
