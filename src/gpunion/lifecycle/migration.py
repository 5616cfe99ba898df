"""One interruption, from its cause to the next start."""

from __future__ import annotations

from gpunion.domain.jobs.migration import MigrationPhase as P
from gpunion.lifecycle.state_machine import Edge, Machine

MIGRATION: Machine[P] = Machine(
    "migration",
    [P.PARKING, P.FLUSHING, P.SEEKING],
    [
        Edge(P.PARKING, P.PARKED, "off its GPUs, in memory"),
        Edge(P.PARKING, P.FLUSHING, "could not be parked: saved instead"),
        Edge(P.PARKING, P.ABANDONED, "stays, or its run ended"),
        Edge(P.PARKED, P.RESTARTING, "its GPUs are free for it again"),
        Edge(P.PARKED, P.FLUSHING, "dumped as it stands, to go elsewhere"),
        Edge(P.PARKED, P.ABANDONED, "its run ended"),
        Edge(P.FLUSHING, P.PARKED, "could not be dumped: stands still on"),
        Edge(P.RESTARTING, P.PARKED, "has to stand still on"),
        Edge(P.FLUSHING, P.SEEKING, "saved, or given up"),
        Edge(P.FLUSHING, P.ABANDONED, "stays, or over"),
        Edge(P.SEEKING, P.RESTARTING, "placed"),
        Edge(P.SEEKING, P.ABANDONED, "over"),
        Edge(P.RESTARTING, P.DONE, "running again"),
        Edge(P.RESTARTING, P.SEEKING, "could not start there"),
        Edge(P.RESTARTING, P.ABANDONED, "over"),
    ],
)
