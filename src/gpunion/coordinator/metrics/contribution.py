"""What guests have had of each lab's machines, as a counter: it only grows, also while a machine is lent.

A machine's own sum stands in its record, of runs that are over. It begins anew when the machine joins anew,
and goes to another lab with it; neither takes anything from what a lab has given.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpunion.domain.ids import NodeId
from gpunion.engine.coordinator.state import CampusState


class Contribution:
    def __init__(self, state: CampusState, now_s: float) -> None:
        """Counts from now on."""
        self._had_s = {node_id: _had_s(state, node_id, now_s) for node_id in state.nodes}
        self._given_s: dict[str, float] = {node.facts.lab: 0.0 for node in state.nodes.values()}

    def look(self, state: CampusState, now_s: float) -> Mapping[str, float]:
        """GPU-seconds by lab."""
        for node_id, node in state.nodes.items():
            before_s, had_s = self._had_s.get(node_id, 0.0), _had_s(state, node_id, now_s)
            self._had_s[node_id] = had_s
            more_s = had_s - before_s if had_s >= before_s else had_s
            self._given_s[node.facts.lab] = self._given_s.get(node.facts.lab, 0.0) + more_s
        return dict(sorted(self._given_s.items()))


def _had_s(state: CampusState, node_id: NodeId, now_s: float) -> float:
    living = (state.runs[run_id] for run_id in state.living.get(node_id, ()))
    return state.nodes[node_id].lent_gpu_s + sum(run.held_gpu_s(now_s) for run in living)
