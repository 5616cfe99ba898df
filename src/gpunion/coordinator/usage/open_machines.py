"""When machines come and go whose owners let that be kept (`figures = "full"`). Of all others it is summed by
lab, elsewhere, and nothing of a single one is kept."""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.terms import FIGURES_FULL
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.usage_history import MINUTE_S, PhaseSince

WAITING_MAX = 20_000


def is_open(node: Node) -> bool:
    return node.facts.terms.figures == FIGURES_FULL


class OpenMachines:
    def __init__(self) -> None:
        self._phases: dict[NodeId, str] = {}
        # By machine and minute: of one that changes its mind each second the last word counts.
        self._new: dict[tuple[NodeId, int], PhaseSince] = {}
        self._forget: set[str] = set()

    def changed(self, now_s: float, state: CampusState, node_ids: Iterable[NodeId]) -> list[NodeId]:
        """Those of them whose owners took it back."""
        shut = []
        for node_id in node_ids:
            node = state.nodes.get(node_id)
            if node is not None and is_open(node):
                self._note(now_s, node)
            elif self._phases.pop(node_id, None) is not None:
                self._take_back(node_id)
                shut.append(node_id)
        return shut

    @property
    def shut(self) -> frozenset[str]:
        """Those who took it back since it was last asked what is new."""
        return frozenset(self._forget)

    def take(self) -> tuple[list[PhaseSince], list[str]]:
        """What is new, and of whom nothing may be kept any more."""
        taken = list(self._new.values()), sorted(self._forget)
        self._new, self._forget = {}, set()
        return taken

    def put_back(self, phases: Iterable[PhaseSince], forget: Iterable[str]) -> None:
        """`phases` are newer than what was to be forgotten with them, but not than what is to be since."""
        for one in phases:
            if one.node not in self._forget and len(self._new) < WAITING_MAX:
                self._new.setdefault(_key(one), one)
        self._forget.update(forget)

    def _note(self, now_s: float, node: Node) -> None:
        phase = node.phase.value
        if self._phases.get(node.id) == phase:
            return
        self._phases[node.id] = phase
        one = PhaseSince(at_s=now_s, node=node.id, phase=phase)
        if _key(one) in self._new or len(self._new) < WAITING_MAX:
            self._new[_key(one)] = one

    def _take_back(self, node_id: NodeId) -> None:
        self._forget.add(node_id)
        self._new = {key: one for key, one in self._new.items() if one.node != node_id}


def _key(one: PhaseSince) -> tuple[NodeId, int]:
    return NodeId(one.node), int(one.at_s // MINUTE_S)
