"""A node as the coordinator sees it. Its owner may change it at any time, so nearly every edge exists."""

from __future__ import annotations

from gpunion.domain.nodes.node import NodePhase as P
from gpunion.lifecycle.state_machine import Edge, Machine

_HERE = (P.SHARING, P.PAUSED, P.RECLAIMING, P.RECLAIMED)

NODE: Machine[P] = Machine(
    "node",
    [P.SHARING],
    [
        Edge(P.SHARING, P.PAUSED, "pause"),
        Edge(P.SHARING, P.RECLAIMING, "notice"),
        Edge(P.SHARING, P.RECLAIMED, "kill"),
        Edge(P.PAUSED, P.SHARING, "resume"),
        Edge(P.PAUSED, P.RECLAIMING, "notice"),
        Edge(P.PAUSED, P.RECLAIMED, "kill"),
        Edge(P.RECLAIMING, P.RECLAIMED, "free, or deadline"),
        Edge(P.RECLAIMING, P.SHARING, "owner changed their mind"),
        Edge(P.RECLAIMING, P.PAUSED, "pause"),
        Edge(P.RECLAIMED, P.SHARING, "resume"),
        Edge(P.RECLAIMED, P.PAUSED, "pause"),
        Edge(P.RECLAIMED, P.RECLAIMING, "notice"),
        *(Edge(phase, P.SILENT, "silence") for phase in _HERE),
        *(Edge(P.SILENT, phase, "heard again") for phase in _HERE),
        *(Edge(phase, P.LEFT, "leave") for phase in (*_HERE, P.SILENT)),
        Edge(P.LEFT, P.SHARING, "join"),
    ],
)
