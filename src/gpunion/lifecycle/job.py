"""A job's life, from being accepted to being over."""

from __future__ import annotations

from gpunion.domain.jobs.job import JobPhase as P
from gpunion.lifecycle.state_machine import Edge, Machine

JOB: Machine[P] = Machine(
    "job",
    [P.PENDING],
    [
        Edge(P.PENDING, P.STARTING, "placed"),
        Edge(P.PENDING, P.CANCELLED, "stopped"),
        Edge(P.PENDING, P.FAILED, "it could not be placed without a fault of the coordinator's"),
        Edge(P.STARTING, P.RUNNING, "started"),
        Edge(P.STARTING, P.MIGRATING, "refused, or the node went away"),
        Edge(P.STARTING, P.STOPPING, "stop asked"),
        Edge(P.STARTING, P.SUCCEEDED, "finished before the agent could say it started"),
        Edge(P.STARTING, P.FAILED, "could not be started anywhere"),
        Edge(P.RUNNING, P.LEAVING, "last save asked for"),
        Edge(P.RUNNING, P.MIGRATING, "its run ended without its doing"),
        Edge(P.RUNNING, P.STOPPING, "stop asked"),
        Edge(P.RUNNING, P.SUCCEEDED, "finished"),
        Edge(P.RUNNING, P.FAILED, "failed"),
        Edge(P.LEAVING, P.RUNNING, "stays after all"),
        Edge(P.LEAVING, P.MIGRATING, "left"),
        Edge(P.LEAVING, P.STOPPING, "stop asked"),
        Edge(P.LEAVING, P.SUCCEEDED, "finished before it had to go"),
        Edge(P.LEAVING, P.FAILED, "failed"),
        Edge(P.MIGRATING, P.STARTING, "placed again"),
        Edge(P.MIGRATING, P.CANCELLED, "stopped"),
        Edge(P.MIGRATING, P.SUCCEEDED, "had finished before it was given up"),
        Edge(P.MIGRATING, P.FAILED, "had failed before it was given up"),
        Edge(P.STARTING, P.BETWEEN, "its window was over before it began"),
        Edge(P.RUNNING, P.BETWEEN, "its window is over"),
        Edge(P.LEAVING, P.BETWEEN, "its window is over"),
        Edge(P.BETWEEN, P.STARTING, "placed in its next window"),
        Edge(P.BETWEEN, P.CANCELLED, "stopped"),
        Edge(P.BETWEEN, P.SUCCEEDED, "had finished before it was given up"),
        Edge(P.BETWEEN, P.FAILED, "had failed before it was given up"),
        *(Edge(phase, P.FINISHING, "ended before its gang") for phase in (P.STARTING, P.RUNNING, P.LEAVING)),
        Edge(P.FINISHING, P.SUCCEEDED, "all of its gang finished"),
        Edge(P.FINISHING, P.FAILED, "one of its gang failed"),
        Edge(P.FINISHING, P.MIGRATING, "another of its gang was interrupted"),
        Edge(P.FINISHING, P.CANCELLED, "stopped"),
        Edge(P.STOPPING, P.CANCELLED, "stopped"),
        Edge(P.STOPPING, P.SUCCEEDED, "finished first"),
    ],
)
