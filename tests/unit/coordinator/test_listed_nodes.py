"""Which machines an operator sees, and what they are said to have lent."""

from __future__ import annotations

import math

from gpunion.coordinator.routes.nodes import listed_nodes
from gpunion.domain.jobs.run import RunPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.wire.v1 import convert
from tests.builders.values import a_grant, a_node, a_run

NODES = (
    a_node("gamma", phase=NodePhase.LEFT, phase_since_s=100.0),
    a_node("beta", phase=NodePhase.LEFT, phase_since_s=900.0),
    a_node("delta", phase=NodePhase.LEFT, phase_since_s=900.0, removed=True),
    a_node("alpha", phase_since_s=0.0),
)


def test_machines_that_left_long_ago_are_listed_on_request_only_and_removed_ones_never() -> None:
    assert [node.id for node in listed_nodes(NODES, 500.0)] == ["alpha", "beta"]
    assert [node.id for node in listed_nodes(NODES, -math.inf)] == ["alpha", "beta", "gamma"]


def test_what_runs_now_counts_as_lent_up_to_this_moment() -> None:
    running = a_run("job-e1", phase=RunPhase.RUNNING, started_s=100.0, grant=a_grant(0, 1))
    ordered = a_run("other-e1", phase=RunPhase.ORDERED, started_s=None, grant=a_grant(2))
    node = a_node(lent_gpu_s=1000.0)
    shown = convert.node_out(
        node, now_s=160.0, runs=[running, ordered], connected=True, fingerprint=None, last_heard_s=None
    )
    assert shown.lent_gpu_s == 1000.0 + 2 * 60.0
