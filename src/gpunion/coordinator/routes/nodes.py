"""Nodes, the campus as a whole, and what its audit found."""

from __future__ import annotations

from fastapi import APIRouter

from gpunion import __version__
from gpunion.coordinator import views
from gpunion.coordinator.problems import not_found
from gpunion.coordinator.routes.access import Admin, Anybody, TheCampus
from gpunion.domain.ids import NodeId
from gpunion.wire.v1 import campus as wire
from gpunion.wire.v1 import convert

router = APIRouter(tags=["campus"])


@router.get("/nodes")
async def nodes(campus: TheCampus, _caller: Anybody) -> wire.NodeList:
    ordered = sorted(campus.state.nodes.values(), key=lambda node: node.id)
    return wire.NodeList(nodes=[views.node_out(campus, node) for node in ordered])


@router.get("/nodes/{node_id}")
async def node(node_id: str, campus: TheCampus, _caller: Anybody) -> wire.NodeOut:
    found = campus.state.nodes.get(NodeId(node_id))
    if found is None:
        raise not_found(f"node {node_id[:64]}", "GET /api/v1/nodes lists the nodes there are")
    return views.node_out(campus, found)


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
