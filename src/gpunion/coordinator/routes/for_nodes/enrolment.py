"""How a machine becomes a node, by a one-time join token for a credential of its own; and how it leaves."""

from __future__ import annotations

from fastapi import APIRouter

from gpunion.coordinator.api.access import Admin, NodeOnly, TheCampus
from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.credentials import JoinRefused, fingerprint
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.protocol.events import NodeReported
from gpunion.domain.protocol.reports import NodeLeft
from gpunion.ports.database import Redeemed
from gpunion.vault.locations import CAMPUS
from gpunion.wire.v1 import convert
from gpunion.wire.v1.campus import EnrolIn, EnrolOut, FarewellOut, JoinTokenIn, JoinTokenOut

router = APIRouter(tags=["enrolment"])

_SENTENCES = {
    Redeemed.UNKNOWN: (401, "the join token is not known here; was all of it copied?"),
    Redeemed.USED: (403, "the join token has been used; each works once"),
    Redeemed.EXPIRED: (403, "the join token is too old"),
}


@router.post("/join-tokens", status_code=201)
async def make_join_token(campus: TheCampus, _caller: Admin, wish: JoinTokenIn | None = None) -> JoinTokenOut:
    expires_s = campus.clock.now_s() + (wish or JoinTokenIn()).expires_in_s
    token = await campus.keyring.make_join_token(expires_s)
    return JoinTokenOut(join_token=token, expires_at=convert.shown_time(expires_s))


@router.post("/enrol", status_code=201)
async def enrol(machine: EnrolIn, campus: TheCampus) -> EnrolOut:
    try:
        credential, secret = await campus.keyring.enrol(machine.join_token, machine.node_name, machine.lab)
    except JoinRefused as refused:
        status, detail = _SENTENCES[refused.outcome]
        next_step = "ask the campus operator for a new one (`gpunion coordinator token`)"
        raise ApiError(status, f"join_token_{refused.outcome}", detail, next_step) from refused
    return EnrolOut(
        node_id=credential.name,
        credential=secret,
        fingerprint=fingerprint(credential),
        vault=campus.vault,
        vault_mark=campus.marks.folder(CAMPUS).mark,
        timing=convert.timing_out(campus.timing),
    )


@router.post("/agent/farewell")
async def farewell(campus: TheCampus, caller: NodeOnly) -> FarewellOut:
    """A machine whose agent is dead leaves by this. Its guests count until they have certainly ended."""
    node = campus.state.nodes.get(NodeId(caller.name))
    if node is not None and node.phase is not NodePhase.LEFT:
        await campus.loop.post(NodeReported(node_id=node.id, report=NodeLeft()))
    return FarewellOut(node_id=caller.name, phase=NodePhase.LEFT.value)
