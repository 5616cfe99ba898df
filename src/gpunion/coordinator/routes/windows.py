"""Windows: which there are, until when and why, who has them and who bids for them."""

from __future__ import annotations

from fastapi import APIRouter

from gpunion.coordinator.api.access import Anybody, TheCampus
from gpunion.coordinator.services import Campus
from gpunion.domain.ids import JobId
from gpunion.domain.jobs.window import WindowEnd
from gpunion.engine.coordinator.planning.clearing.shown import ShownWindow
from gpunion.engine.coordinator.windows.ends import BECAUSE
from gpunion.wire.v1 import campus as wire
from gpunion.wire.v1 import convert

# Of a window without an end, when somebody waits.
OTHERS_BID = "its turn, then others bid"

router = APIRouter(tags=["campus"])


@router.get("/windows")
async def windows(campus: TheCampus, _caller: Anybody) -> wire.WindowList:
    policy = campus.station.engine.policies.windows
    found = campus.station.engine.windows(campus.clock.now_s())
    return wire.WindowList(
        policy=None if policy is None else policy.name,
        turn_s=None if policy is None else [policy.bounds.least_s, policy.bounds.most_s],
        windows=[_shown(campus, one) for one in found],
    )


def _shown(campus: Campus, one: ShownWindow) -> wire.WindowOut:
    return wire.WindowOut(
        node_id=one.node_id,
        gpus=list(one.gpus),
        ends_at=convert.shown_time_or_none(one.ends_s),
        end=one.end.value,
        because=BECAUSE[one.end] if one.end is not WindowEnd.OPEN or not one.bids else OTHERS_BID,
        job_id=one.tenant,
        job_name=_name(campus, one.tenant),
        turn_over_at=convert.shown_time_or_none(one.turn_over_s),
        next_job_id=one.promised,
        next_job_name=_name(campus, one.promised),
        bids=[
            wire.BidOut(
                job_id=bid.job_id,
                job_name=_name(campus, bid.job_id) or "",
                steps=bid.steps,
                useful_s=bid.useful_s,
                length_s=bid.length_s,
                vram_bytes=bid.vram_bytes,
                finishes=bid.finishes,
            )
            for bid in one.bids
        ],
        unused_because=one.unused_because or None,
    )


def _name(campus: Campus, job_id: JobId | None) -> str | None:
    job = None if job_id is None else campus.state.jobs.get(job_id)
    return None if job is None else job.spec.name
