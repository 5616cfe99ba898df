"""One incarnation's life on one node."""

from __future__ import annotations

from gpunion.domain.jobs.run import RunPhase as P
from gpunion.lifecycle.state_machine import Edge, Machine

RUN: Machine[P] = Machine(
    "run",
    [P.ORDERED],
    [
        Edge(P.ORDERED, P.RUNNING, "started"),
        Edge(P.ORDERED, P.STOPPING, "stop asked"),
        Edge(P.ORDERED, P.ENDED, "refused, failed to start, or lost"),
        Edge(P.RUNNING, P.LEAVING, "last save asked for"),
        Edge(P.RUNNING, P.STOPPING, "stop asked"),
        Edge(P.RUNNING, P.ENDED, "ended"),
        Edge(P.LEAVING, P.RUNNING, "stays after all"),
        Edge(P.LEAVING, P.STOPPING, "stop asked"),
        Edge(P.LEAVING, P.ENDED, "left"),
        Edge(P.STOPPING, P.ENDED, "stopped"),
    ],
)
