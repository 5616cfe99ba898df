"""Where does a job that must go, go?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.ties import tie_break
from gpunion.policy.placement.filters import refusal
from gpunion.policy.placement.pick import FastThenTight, NotPlaced, place


class Destination(Protocol):
    def choose(
        self, job: Job, views: Sequence[NodeView], *, leaving: NodeId | None, now_s: float
    ) -> NodeId | None:
        """A node to keep a place on, or None: it waits for whatever comes free.

        `leaving`: not this one. None where it leaves a single GPU: another one of the same node will do.
        """
        ...

    def plan(
        self, jobs: Sequence[Job], views: Sequence[NodeView], *, leaving: NodeId | None, now_s: float
    ) -> dict[JobId, NodeId]:
        """Places for several that must go at once; who is not in it is asked for with `choose`."""
        ...


class OneByOne:
    """Makes no plan for several: each is asked for in turn, and finds what the former left."""

    def plan(
        self, jobs: Sequence[Job], views: Sequence[NodeView], *, leaving: NodeId | None, now_s: float
    ) -> dict[JobId, NodeId]:
        return {}


class BestFit(OneByOne):
    """What placement would choose, another node than the one it leaves."""

    def choose(
        self, job: Job, views: Sequence[NodeView], *, leaving: NodeId | None, now_s: float
    ) -> NodeId | None:
        others = [view for view in views if view.node.id != leaving]
        found = place(job, others, now_s, FastThenTight())
        return None if isinstance(found, NotPlaced) else found.node_id


class RandomDestination(OneByOne):
    """Any node that would do; for comparisons."""

    def choose(
        self, job: Job, views: Sequence[NodeView], *, leaving: NodeId | None, now_s: float
    ) -> NodeId | None:
        able = [v.node.id for v in views if v.node.id != leaving and refusal(job, v, now_s) is None]
        return min(able, key=lambda node: tie_break("destination", job.id, job.epoch, node), default=None)
