"""What going to a node is expected to cost, in seconds: arriving, being slower there, being driven out again.

The same sum ranks destinations of a move and places for a new job. It is in seconds of the job, so that a
fast machine that will be wanted back in an hour can be weighed against a slow one that will not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.resources import Gpu
from gpunion.domain.ties import tie_break
from gpunion.policy.assignment import cheapest
from gpunion.policy.checkpoint_timing.interval import CheckpointTiming, Young
from gpunion.policy.checkpoint_timing.notices import NoticeBook
from gpunion.policy.hazard.constant import ConstantHazard, Survival
from gpunion.policy.placement.filters import refusal
from gpunion.policy.placement.pick import LEFTOVER_WEIGHT, choose_gpus

# Beyond a working day nobody foretells whether a machine stays.
HORIZON_MOST_S = 8 * 3600.0
# The work of a job that has not said how long it takes: the median of Philly's is half an hour, the mean
# nearly four.
UNKNOWN_WORK_S = 2 * 3600.0
# A machine of the group that is just taking one back is a little more likely to be next.
SAME_OWNER_S = 60.0
# Installing an environment where it does not lie ready: PyTorch's took 16 to 81 s (docs/environments.md).
INSTALL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedLoss:
    """Answers where to go (`choose`) and where to begin (`score`)."""

    hazard: Survival = field(default_factory=ConstantHazard)
    notices: NoticeBook = field(default_factory=NoticeBook)
    timing: CheckpointTiming = field(default_factory=Young)

    def choose(
        self, job: Job, views: Sequence[NodeView], *, leaving: NodeId | None, now_s: float
    ) -> NodeId | None:
        able = [
            (view, choose_gpus(job, view))
            for view in views
            if view.node.id != leaving and refusal(job, view, now_s) is None
        ]
        lab = next((view.node.facts.lab for view in views if view.node.id == leaving), None)

        def rank(one: tuple[NodeView, tuple[Gpu, ...]]) -> tuple[float, int]:
            view, gpus = one
            cost_s = self.cost_s(job, view.node, gpus, now_s) + installing_s(job, view)
            cost_s += SAME_OWNER_S * (view.node.facts.lab == lab)
            return cost_s, tie_break("destination", job.id, job.epoch, view.node.id)

        best = min(able, key=rank, default=None)
        return None if best is None else best[0].node.id

    def plan(
        self, jobs: Sequence[Job], views: Sequence[NodeView], *, leaving: NodeId | None, now_s: float
    ) -> dict[JobId, NodeId]:
        """A column for every place a node may have for one of them, and the cheapest assignment of all."""
        others = [view for view in views if view.node.id != leaving]
        columns = [view for view in others for _ in range(min(len(jobs), max(1, len(view.free_gpus))))]
        known: dict[tuple[JobId, NodeId], float] = {}

        def cost_s(job: Job, view: NodeView) -> float:
            key = (job.id, view.node.id)
            if key not in known:
                able = refusal(job, view, now_s) is None
                gpus = choose_gpus(job, view)
                loss_s = self.cost_s(job, view.node, gpus, now_s) + installing_s(job, view) if able else inf
                known[key] = loss_s
            return known[key]

        chosen = cheapest([[cost_s(job, view) for view in columns] for job in jobs])
        return {
            job.id: columns[column].node.id
            for job, column in zip(jobs, chosen, strict=True)
            if column is not None
        }

    def score(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...], now_s: float) -> float:
        """Places a job that waits: the least cost; a GPU left idle beside it counts as a tenth of its work,
        so that a whole machine is not broken up for a moment's gain."""
        leftover = len(view.free_gpus) - job.spec.request.gpus
        cost_s = self.cost_s(job, view.node, gpus, now_s) + installing_s(job, view)
        return -cost_s - LEFTOVER_WEIGHT * leftover * remaining_s(job)

    def because(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...]) -> str:
        model = gpus[0].model if gpus else "no GPU needed"
        return f"least time expected to be lost there ({model})"

    def cost_s(self, job: Job, node: Node, gpus: tuple[Gpu, ...], now_s: float) -> float:
        speed = min((gpu.speed for gpu in gpus), default=1.0)
        stays_s = remaining_s(job) / speed
        down_s = self.downtime_s(job, node)
        again = 1.0 - self.hazard.survival(node, now_s, min(stays_s, HORIZON_MOST_S))
        if node.known_end_s is not None and now_s + stays_s > node.known_end_s:
            again = 1.0  # its owner's own terms say so
        needs_s = job.cost.save_s + 8.0 * job.cost.ship_bytes / max(node.facts.lent_uplink_bps / 2, 1.0)
        unsaved = 1.0 - self.notices.chance_in_time(needs_s, node.facts.terms.notice_s)
        redone_s = unsaved * self.timing.interval_s(job, node, now_s) / 2
        return down_s + stays_s + again * (redone_s + down_s)

    def downtime_s(self, job: Job, node: Node) -> float:
        """Coming up, and what the node lacks of the state over its own wire."""
        return job.cost.restart_s + 8.0 * job.lacking_bytes(node.id) / max(node.facts.lent_uplink_bps, 1.0)


def installing_s(job: Job, view: NodeView) -> float:
    """Before it begins there, for the packages it names."""
    return INSTALL_S if job.packages is not None and job.packages.digest not in view.installed else 0.0


def remaining_s(job: Job) -> float:
    """Work left at reference speed, as far as anybody knows."""
    whole_s = UNKNOWN_WORK_S if job.spec.expected_s is None else job.spec.expected_s
    done = 0.0 if job.durable is None else job.durable.progress
    return whole_s * max(0.0, 1.0 - done)
