"""A checkpoint's life. Durable and failed are final: what was acknowledged is never taken back."""

from __future__ import annotations

from gpunion.domain.jobs.checkpoint import CheckpointPhase as P
from gpunion.lifecycle.state_machine import Edge, Machine

CHECKPOINT: Machine[P] = Machine(
    "checkpoint",
    [P.REQUESTED],
    [
        Edge(P.REQUESTED, P.CAPTURED, "the program saved"),
        Edge(P.REQUESTED, P.DURABLE, "sealed"),
        Edge(P.REQUESTED, P.FAILED, "not answered"),
        Edge(P.CAPTURED, P.DURABLE, "sealed"),
        Edge(P.CAPTURED, P.FAILED, "not shipped"),
    ],
)
