"""Knows when every node will leave. For the simulator only: the best any hazard could do."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node

# One departure at a known moment has no rate. Seen as a rate it is "once in the time that is left", which
# makes an interval of checkpoints shrink as the moment comes near; and never zero.
LEAST_LEFT_S = 1.0
NEVER_RATE_PER_S = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleHazard:
    """`departures_s[node]`: when it leaves, in order."""

    departures_s: Mapping[NodeId, Sequence[float]]

    def rate_per_s(self, node: Node, now_s: float) -> float:
        left_s = self.leaves_s(node.id, now_s) - now_s
        return NEVER_RATE_PER_S if left_s == inf else 1.0 / max(LEAST_LEFT_S, left_s)

    def upper_rate_per_s(self, node: Node, now_s: float) -> float:
        return self.rate_per_s(node, now_s)

    def survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return 0.0 if self.leaves_s(node.id, now_s) <= now_s + horizon_s and horizon_s > 0 else 1.0

    def lower_survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return self.survival(node, now_s, horizon_s)

    def leaves_s(self, node_id: NodeId, now_s: float) -> float:
        """The next departure after now; infinity where there is none."""
        times_s = self.departures_s.get(node_id, ())
        index = bisect_right(times_s, now_s)
        return times_s[index] if index < len(times_s) else inf
