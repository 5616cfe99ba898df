"""What jobs print: pushed by the agents, read by people."""

from __future__ import annotations

import asyncio
import errno
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request

from gpunion.coordinator.api.access import Admin, NodeOnly, TheCampus
from gpunion.coordinator.api.problems import ApiError, not_found, refused
from gpunion.coordinator.job_logs import LogGap
from gpunion.coordinator.routes.jobs import find
from gpunion.coordinator.services import Campus
from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.ids import run_id as run_id_of
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import NodePhase
from gpunion.engine.coordinator.vault_rights import why_not_log
from gpunion.wire.v1.campus import LogPage, LogPushed, LogPushQuery, LogQuery

router = APIRouter(tags=["logs"])

# After the end of a job, for a machine that is there to send what the job printed last.
LAST_WORDS_S = 600.0

_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.get("/jobs/{job_id}/logs")
async def read_log(
    job_id: str, campus: TheCampus, _caller: Admin, query: Annotated[LogQuery, Query()]
) -> LogPage:
    job = find(campus, job_id)
    # Asked before reading: what comes after the end of the job is read by the next call.
    over = job.phase.over
    run = _lacking(campus, job)
    if run is not None and await asyncio.to_thread(campus.logs.ended, job.id, run.epoch):
        run = None
    piece = await asyncio.to_thread(campus.logs.read, job.id, query.offset, query.limit)
    return LogPage(
        text=piece.text,
        next_offset=piece.next_position,
        over=over and piece.at_end and (run is None or not _can_send(campus, run)),
        lacking=None if run is None else run.node_id,
    )


def _lacking(campus: Campus, job: Job) -> Run | None:
    """The run whose last words may come after the end of its job: they go their own way, behind the news."""
    run = campus.state.runs.get(run_id_of(job.id, job.epoch))
    if not job.phase.over or run is None or run.started_s is None:
        return None
    late = job.ended_s is not None and campus.clock.now_s() > job.ended_s + LAST_WORDS_S
    # From a machine that is there they would have come by now: its agent is one that does not tell the end.
    return None if late and _can_send(campus, run) else run


def _can_send(campus: Campus, run: Run) -> bool:
    node = campus.state.nodes.get(run.node_id)
    return node is not None and node.phase not in (NodePhase.SILENT, NodePhase.LEFT)


@router.post("/agent/runs/{run_id}/log", openapi_extra={"requestBody": {"content": _BYTES}})
async def push_log(
    run_id: str,
    campus: TheCampus,
    caller: NodeOnly,
    request: Request,
    query: Annotated[LogPushQuery, Query()],
) -> LogPushed:
    run = campus.state.runs.get(RunId(run_id))
    if run is None:
        raise not_found(f"run {run_id[:64]}", "push only logs of runs this node was given")
    if refusal := why_not_log(campus.state, NodeId(caller.name), run):
        raise refused(refusal)
    data = await request.body()
    try:
        end = await asyncio.to_thread(campus.logs.append, run.job_id, run.epoch, query.offset, data)
        if query.end:
            await asyncio.to_thread(campus.logs.end, run.job_id, run.epoch, query.offset + len(data))
    except LogGap as gap:
        next_step = f"push again from byte {gap.expected}"
        raise ApiError(409, "log_gap", str(gap), next_step, next_offset=gap.expected) from gap
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        detail = f"the log cannot be kept: {error.strerror}"
        status, code = (507, "no_room") if full else (503, "store_unavailable")
        raise ApiError(status, code, detail, "push it again in a moment") from error
    return LogPushed(next_offset=end)
