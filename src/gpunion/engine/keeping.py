"""Keeps a node for a job that has waited too long, until enough of it is free.

A job that needs several GPUs at once would never get them from a campus on which each is given away the
moment it comes free. Whoever is urgent and finds no room has one node that no newcomer gets; those who are
there go on, and whoever an owner drove out elsewhere may still come.
"""

from __future__ import annotations

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.job import Job, JobPhase
from gpunion.domain.node import NodePhase
from gpunion.domain.snapshot import NodeView
from gpunion.engine.capacity import view
from gpunion.engine.draft import Draft
from gpunion.engine.preempting import without
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

    def free_for(self, job: Job, here: NodeView) -> bool:
        if here.node.id in self._until:
            return gone_before(job, here, *self._until[here.node.id])
        return here.node.id not in self.nodes or job.phase is JobPhase.MIGRATING

    def keep_for(self, draft: Draft, job: Job) -> None:
        ordering = draft.policies.ordering
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
