"""Nodes, the campus as a whole, and what its audit found."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query

from gpunion import __version__
from gpunion.coordinator.api import views
from gpunion.coordinator.api.access import Admin, Anybody, TheCampus
from gpunion.coordinator.api.problems import ApiError, not_found
from gpunion.coordinator.services import Campus
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.trust import NodeAccepted, NodeRemoved
from gpunion.domain.reasons.reason import Why
from gpunion.wire.v1 import campus as wire
from gpunion.wire.v1 import convert

router = APIRouter(tags=["campus"])


# Who asks the day after where a machine is finds it; after that it would only be in the way.
LEFT_SHOWN_S = 86_400.0


@router.get("/nodes")
async def nodes(
    campus: TheCampus, _caller: Anybody, query: Annotated[wire.NodeQuery, Query()]
) -> wire.NodeList:
    """Machines that left more than a day ago only with `all`; those taken off the list never."""
    since_s = -math.inf if query.all else campus.clock.now_s() - LEFT_SHOWN_S
    listed = listed_nodes(campus.state.nodes.values(), since_s)
    return wire.NodeList(nodes=[views.node_out(campus, node) for node in listed])


@router.get("/nodes/{node_id}")
async def node(node_id: str, campus: TheCampus, _caller: Anybody) -> wire.NodeOut:
    return views.node_out(campus, _find(campus, node_id))


@router.delete("/nodes/{node_id}")
async def remove_node(node_id: str, campus: TheCampus, caller: Admin) -> wire.NodeOut:
    """Off the list: one that has left, or is silent and has nothing of anybody. Connecting brings it back."""
    found = _find(campus, node_id)
    outcome = await campus.loop.post(NodeRemoved(node_id=found.id, by=caller.name))
    for reason in outcome.commit.decision.reasons:
        if reason.why is Why.NODE_STAYS and reason.subject == found.id:
            next_step = (
                "gpunion leave on that machine; or, where it is gone for good, wait until it is silent"
            )
            raise ApiError(409, "node_in_use", f"{found.id}: {reason.sentence()}", next_step)
    return views.node_out(campus, campus.state.nodes[found.id])


@router.post("/nodes/{node_id}/accept")
async def accept_node(node_id: str, campus: TheCampus, caller: Admin) -> wire.NodeOut:
    """One that was isolated gets guests and leases again. Of one that was not, nothing changes."""
    found = _find(campus, node_id)
    await campus.loop.post(NodeAccepted(node_id=found.id, by=caller.name))
    return views.node_out(campus, campus.state.nodes[found.id])


@router.get("/free")
async def free(campus: TheCampus, _caller: Anybody) -> wire.FreeList:
    """What anybody could have now, of the machines that take new guests. Places kept for jobs on their way
    are not free."""
    now_s = campus.clock.now_s()
    found = campus.station.engine.open_nodes(now_s, campus.places.choose(None, None))
    return wire.FreeList(
        nodes=[convert.free_out(view) for view in sorted(found, key=lambda view: view.node.id)],
        waiting=len(campus.state.waiting),
    )


@router.get("/campus")
async def campus_itself(campus: TheCampus, _caller: Anybody) -> wire.CampusOut:
    return wire.CampusOut(
        version=__version__,
        term=campus.station.term,
        vault=campus.vault,
        timing=convert.timing_out(campus.timing),
        now=convert.shown_time(campus.clock.now_s()),
    )


@router.get("/audit")
async def audit(campus: TheCampus, _caller: Admin) -> wire.AuditOut:
    return wire.AuditOut(
        violations=[
            wire.ViolationOut(
                at=convert.shown_time(finding.at_s),
                event=finding.event,
                invariant=finding.invariant,
                detail=finding.detail,
            )
            for finding in campus.ledger.findings
        ],
        counters=dict(sorted(campus.ledger.counters.items())),
    )


def listed_nodes(nodes: Iterable[Node], left_since_s: float) -> list[Node]:
    shown = (node for node in nodes if node.phase is not NodePhase.LEFT or node.phase_since_s > left_since_s)
    return sorted((node for node in shown if not node.removed), key=lambda node: node.id)


def _find(campus: Campus, node_id: str) -> Node:
    found = campus.state.nodes.get(NodeId(node_id))
    if found is None or found.removed:
        raise not_found(f"node {node_id[:64]}", "GET /api/v1/nodes lists the nodes there are")
    return found
