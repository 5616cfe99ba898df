"""One interruption, from its cause to the next start."""

from __future__ import annotations

from gpunion.domain.migration import MigrationPhase as P
from gpunion.lifecycle.machine import Edge, Machine

MIGRATION: Machine[P] = Machine(
    "migration",
    [P.FLUSHING, P.SEEKING],
    [
        Edge(P.FLUSHING, P.SEEKING, "saved, or given up"),
        Edge(P.FLUSHING, P.ABANDONED, "stays, or over"),
        Edge(P.SEEKING, P.RESTARTING, "placed"),
        Edge(P.SEEKING, P.ABANDONED, "over"),
        Edge(P.RESTARTING, P.DONE, "running again"),
        Edge(P.RESTARTING, P.SEEKING, "could not start there"),
        Edge(P.RESTARTING, P.ABANDONED, "over"),
    ],
)
