"""Keeps a node for a job that has waited too long, until enough of it is free.

A job that needs several GPUs at once would never get them from a campus on which each is given away the
moment it comes free. Whoever is urgent and finds no room has one node that no newcomer gets; those who are
there go on, and whoever an owner drove out elsewhere may still come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.engine.coordinator.capacity import view
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning.preemption import remaining_s, without
from gpunion.policy.gangs.placing import gone_before
from gpunion.policy.ordering import URGENT
from gpunion.policy.placement.filters import refusal

# Idle GPUs are what it costs, so few jobs at a time have it.
KEPT_MOST = 2


class Kept:
    """The nodes kept in one pass, the most urgent jobs first."""

    def __init__(self) -> None:
        self.nodes: set[NodeId] = set()
        self.gangs: set[JobId] = set()  # whose turn has come in this pass
        self._until: dict[NodeId, tuple[float, float | None]] = {}  # kept for a gang: now, and its start
        self._first: _First | None = None  # the first who found no place has one kept, where that is the rule

    def free_for(self, job: Job, here: NodeView) -> bool:
        if here.node.id in self._until:
            return gone_before(job, here, *self._until[here.node.id])
        if self._first is not None and here.node.id == self._first.node_id:
            return self._first.lets_pass(job, here)
        return here.node.id not in self.nodes or job.phase is JobPhase.MIGRATING

    def until_s(self, node_id: NodeId) -> float | None:
        """Until when others may be there. None: as long as they like. Where nobody knows for how long it is
        kept: not at all."""
        if node_id in self._until:
            return self._until[node_id][1] or self._until[node_id][0]
        return -inf if node_id in self.nodes else None

    def keep_for(self, draft: Draft, job: Job) -> None:
        ordering = draft.policies.ordering
        if draft.policies.reserves_first and self._first is None and job.phase is not JobPhase.MIGRATING:
            able = [node_id for node_id in draft.state.living if self._would_do(draft, job, node_id)]
            soonest = [_first_on(draft, job, node_id) for node_id in able]
            self._first = min(soonest, key=lambda one: (one.from_s, one.node_id), default=None)
            return
        wide = job.spec.request.gpus > 1  # a single one is the first to come free anyway
        if not wide or len(self.nodes) >= KEPT_MOST or ordering.lane(job, draft.now_s)[1] != URGENT:
            return
        able = [node_id for node_id in draft.state.living if self._would_do(draft, job, node_id)]
        nearest = min(able, key=lambda one: (-len(view(draft, one).free_gpus), one), default=None)
        if nearest is not None:
            self.nodes.add(nearest)

    def keep_all_for(self, draft: Draft, nodes: list[NodeId]) -> None:
        """For a gang: who comes there meanwhile has to be gone by when the gang could begin."""
        starts_s = _emptied_s(draft, nodes)
        for node_id in nodes:
            self.nodes.add(node_id)
            self._until[node_id] = (draft.now_s, starts_s)

    def _would_do(self, draft: Draft, job: Job, node_id: NodeId) -> bool:
        here = view(draft, node_id)
        if node_id in self.nodes or here.node.phase is not NodePhase.SHARING:
            return False
        everybody = frozenset(draft.state.living[node_id])
        return refusal(job, without(here, draft, everybody), draft.now_s) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class _First:
    """EASY backfilling: where the first in the queue will begin, as far as those there say how long they
    take."""

    node_id: NodeId
    now_s: float
    from_s: float
    gpus: int
    freed: int  # by then, beside those that are free now

    def lets_pass(self, job: Job, here: NodeView) -> bool:
        """Who is gone by then, or leaves enough beside it."""
        if gone_before(job, here, self.now_s, self.from_s):
            return True
        return len(here.free_gpus) - job.spec.request.gpus + self.freed >= self.gpus


def _first_on(draft: Draft, job: Job, node_id: NodeId) -> _First:
    here, gpus = view(draft, node_id), job.spec.request.gpus
    ends = sorted(_ends_s(draft, node_id))
    freed = 0
    from_s = draft.now_s
    for end_s, count in ends:
        if len(here.free_gpus) + freed >= gpus:
            break
        freed, from_s = freed + count, max(from_s, end_s)
    return _First(node_id=node_id, now_s=draft.now_s, from_s=from_s, gpus=gpus, freed=freed)


def _ends_s(draft: Draft, node_id: NodeId) -> Iterator[tuple[float, int]]:
    """When each run there is expected to have ended, and how many GPUs it gives back."""
    speed = max(draft.state.nodes[node_id].facts.capacity.speed, 1e-6)
    for run_id in draft.state.living.get(node_id, ()):
        run = draft.state.runs[run_id]
        left_s = remaining_s(draft, draft.job_of(run), run)
        yield (inf if left_s is None else draft.now_s + left_s / speed), len(run.held_gpus)


def _emptied_s(draft: Draft, nodes: list[NodeId]) -> float | None:
    """When those who are there now are expected to have ended; None: one of them does not say."""
    ends_s = [draft.now_s]
    for node_id in nodes:
        for run_id in draft.state.living.get(node_id, ()):
            run = draft.state.runs[run_id]
            spec, speed = draft.job_of(run).spec, draft.state.nodes[node_id].facts.capacity.speed
            if spec.expected_s is None:
                return None
            began_s = run.ordered_s if run.started_s is None else run.started_s
            ends_s.append(began_s + spec.expected_s / max(speed, 1e-6))
    return max(ends_s)
