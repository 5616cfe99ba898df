"""Counts GPU-seconds as they pass, by the minute and by the lab whose machines they are.

Between two changes of a machine nothing about it changes, so what passed is exact and costs nothing while
nothing happens. Nothing is kept of single machines: only sums of a lab leave this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.usage_history import MINUTE_S, UsageSum

# The meter is read every minute. A longer silence is a machine that slept: nobody knows what passed then.
GAP_MAX_S = 600.0
# Where the history takes nothing: so many sums wait for it, a day of seven labs.
WAITING_MAX = 10_000

_LENT = frozenset({NodePhase.SHARING, NodePhase.PAUSED, NodePhase.RECLAIMING})


@dataclass(slots=True)
class _Pace:
    lab: str
    lent: int
    used: int
    since_s: float
    departures: int


class Meter:
    def __init__(self) -> None:
        self._paces: dict[NodeId, _Pace] = {}
        self._sums: dict[tuple[int, str], UsageSum] = {}

    def begin(self, now_s: float, state: CampusState) -> None:
        self.changed(now_s, state, state.nodes)

    def changed(self, now_s: float, state: CampusState, node_ids: Iterable[NodeId]) -> None:
        """Something about these machines, or the runs on them, may be different from here on."""
        for node_id in node_ids:
            node = state.nodes.get(node_id)
            if node is None:
                continue
            former = self._paces.get(node_id)
            if former is not None:
                self._settle(former, now_s)
                self._add(now_s, node.facts.lab, departures=max(0, node.departures - former.departures))
            self._paces[node_id] = _pace(node, _runs_on(state, node_id), now_s)

    def take(self, now_s: float) -> list[UsageSum]:
        """All that was counted since it was taken before."""
        for pace in self._paces.values():
            self._settle(pace, now_s)
        taken, self._sums = list(self._sums.values()), {}
        return taken

    def put_back(self, sums: Iterable[UsageSum]) -> None:
        """Nobody took them; as many as there is room for, the newest first."""
        for one in sorted(sums, key=lambda one: one.at_s, reverse=True):
            if (one.at_s, one.lab) in self._sums or len(self._sums) < WAITING_MAX:
                self._add(one.at_s, one.lab, one.lent_gpu_s, one.used_gpu_s, one.departures)

    def _settle(self, pace: _Pace, now_s: float) -> None:
        since_s, pace.since_s = pace.since_s, max(pace.since_s, now_s)
        if not pace.lent or now_s - since_s > GAP_MAX_S:
            return
        for at_s, passed_s in _minutes(since_s, now_s):
            self._add(at_s, pace.lab, pace.lent * passed_s, pace.used * passed_s)

    def _add(
        self, at_s: float, lab: str, lent_gpu_s: float = 0.0, used_gpu_s: float = 0.0, departures: int = 0
    ) -> None:
        if not (lent_gpu_s or used_gpu_s or departures):
            return
        key = (int(at_s // MINUTE_S) * MINUTE_S, lab)
        known = self._sums.get(key) or UsageSum(at_s=key[0], lab=lab)
        self._sums[key] = UsageSum(
            at_s=key[0],
            lab=lab,
            lent_gpu_s=known.lent_gpu_s + lent_gpu_s,
            used_gpu_s=known.used_gpu_s + used_gpu_s,
            departures=known.departures + departures,
        )


def _minutes(since_s: float, until_s: float) -> Iterator[tuple[float, float]]:
    """The part of each minute that passed."""
    while since_s < until_s:
        next_s = min((since_s // MINUTE_S + 1) * MINUTE_S, until_s)
        yield since_s, next_s - since_s
        since_s = next_s


def _runs_on(state: CampusState, node_id: NodeId) -> list[Run]:
    return [state.runs[run_id] for run_id in state.living.get(node_id, ())]


def _pace(node: Node, runs: Iterable[Run], now_s: float) -> _Pace:
    """A GPU that somebody is on is lent, whatever was said since; one of a silent machine only then."""
    at_work = (run for run in runs if run.started_s is not None and run.parked_s is None)
    used = {index for run in at_work for index in run.held_gpus}
    offered = set[int]()
    if node.phase in _LENT and not node.isolated_because:
        withheld = {gpu.index for gpu in node.withheld}
        offered = {gpu.index for gpu in node.facts.capacity.gpus} - withheld
    return _Pace(
        lab=node.facts.lab,
        lent=len(offered | used),
        used=len(used),
        since_s=now_s,
        departures=node.departures,
    )
