"""The campus's vault for nodes that share no file system with it.

A node speaks for the jobs it was given runs of. Blocks are known by the hash of what is in them: who can name
one has seen it or a manifest that names it, and what is put is verified. What is put for a job with a key
cannot be: it is kept among that job's own blocks, where it can do no harm to others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Path, Response
from starlette.requests import Request

from gpunion.coordinator.campus import Campus
from gpunion.coordinator.problems import ApiError
from gpunion.coordinator.routes.access import NodeOnly, TheCampus
from gpunion.domain.ids import JobId, NodeId
from gpunion.ports.store import Credential
from gpunion.ports.vault import (
    BadManifest,
    CorruptBlock,
    MissingBlock,
    NewerFormat,
    OldEpoch,
    UnknownCheckpoint,
    VaultFault,
    VaultFull,
)
from gpunion.ports.vault_desk import FAULT_WORDS, UNAVAILABLE_WORDS, VaultDesk
from gpunion.wire.v1.trees import BlocksOut
from gpunion.wire.v1.vault import (
    EpochIn,
    ForgottenOut,
    HoldIn,
    HoldOut,
    KeepIn,
    ManifestsOut,
    NamesIn,
    NamesOut,
)

router = APIRouter(prefix="/vault", tags=["vault"])

T = TypeVar("T")
JobName = Annotated[str, Path(max_length=128)]
BlockName = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
HoldName = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
STORED_TYPE = "application/octet-stream"
_STORED = {STORED_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_MANIFEST = {"application/json": {"schema": {"type": "object"}}}

NEXT_STEPS: dict[type[VaultFault], str] = {
    OldEpoch: "end this run: a newer one of its job has begun",
    MissingBlock: "put what is missing, then ask again",
    CorruptBlock: "send it again",
    NewerFormat: "the operator upgrades the coordinator",
    BadManifest: "save again",
    UnknownCheckpoint: "ask for those there are",
    VaultFull: "the operator makes room where the vault is",
}
OF_THE_PLACE = "ask again in a moment; if it stays, the operator looks at the disk"


@router.get("/room", status_code=204)
async def check_room(campus: TheCampus, _caller: NodeOnly) -> None:
    """Whether a job could begin to keep checkpoints here; a problem says why not."""
    await _ask(campus, lambda desk: desk.check_room())


@router.post("/jobs/{job_id}/begin", status_code=204)
async def begin_epoch(job_id: JobName, body: EpochIn, campus: TheCampus, caller: NodeOnly) -> None:
    """Says that this epoch of the job is its newest: nothing of an older one is sealed from now on."""
    _has_a_run_of(campus, caller, job_id)
    await _ask(campus, lambda desk: desk.begin(job_id, body.epoch))


@router.post("/has")
async def has_blocks(body: NamesIn, campus: TheCampus, _caller: NodeOnly) -> NamesOut:
    """Those of the blocks that need not be put."""
    return NamesOut(blocks=sorted(await _ask(campus, lambda desk: desk.has(body.blocks))))


@router.put(
    "/blocks/{name}",
    status_code=204,
    openapi_extra={"requestBody": {"required": True, "content": _STORED}},
)
async def put_block(name: BlockName, campus: TheCampus, _caller: NodeOnly, request: Request) -> None:
    """A block as the vault stores it, which is unpacked and verified."""
    stored = await request.body()
    await _ask(campus, lambda desk: desk.put(name, stored))


@router.get("/blocks/{name}", response_class=Response, responses={200: {"content": _STORED}})
async def get_block(
    name: BlockName, campus: TheCampus, _caller: NodeOnly, part: Literal["start"] | None = None
) -> Response:
    """As it is stored. Its start is as much of it as a difference from it needs."""
    if part is None:
        stored = await _ask(campus, lambda desk: desk.fetch(name))
    else:
        stored = await _ask(campus, lambda desk: desk.fetch_start(name))
    return Response(stored, media_type=STORED_TYPE)


@router.post("/blocks/{name}/doubt", status_code=204)
async def doubt_block(name: BlockName, campus: TheCampus, _caller: NodeOnly) -> None:
    """It arrived damaged: the vault looks for itself."""
    await _ask(campus, lambda desk: desk.doubt(name))


@router.post("/jobs/{job_id}/has")
async def has_own_blocks(job_id: JobName, body: NamesIn, campus: TheCampus, caller: NodeOnly) -> NamesOut:
    """The same of a job whose checkpoints are encrypted: its blocks are its own."""
    _has_a_run_of(campus, caller, job_id)
    return NamesOut(blocks=sorted(await _ask(campus, lambda desk: desk.has(body.blocks, job_id))))


@router.put(
    "/jobs/{job_id}/blocks/{name}",
    status_code=204,
    openapi_extra={"requestBody": {"required": True, "content": _STORED}},
)
async def put_own_block(
    job_id: JobName, name: BlockName, campus: TheCampus, caller: NodeOnly, request: Request
) -> None:
    """An encrypted block, whose checksum is verified."""
    _has_a_run_of(campus, caller, job_id)
    stored = await request.body()
    await _ask(campus, lambda desk: desk.put(name, stored, job_id))


@router.get("/jobs/{job_id}/blocks/{name}", response_class=Response, responses={200: {"content": _STORED}})
async def get_own_block(job_id: JobName, name: BlockName, campus: TheCampus, caller: NodeOnly) -> Response:
    _has_a_run_of(campus, caller, job_id)
    return Response(await _ask(campus, lambda desk: desk.fetch(name, job_id)), media_type=STORED_TYPE)


@router.post("/jobs/{job_id}/blocks/{name}/doubt", status_code=204)
async def doubt_own_block(job_id: JobName, name: BlockName, campus: TheCampus, caller: NodeOnly) -> None:
    """It arrived damaged: the vault compares its checksum."""
    _has_a_run_of(campus, caller, job_id)
    await _ask(campus, lambda desk: desk.doubt(name, job_id))


@router.post("/collect")
async def collect_garbage(campus: TheCampus, _caller: NodeOnly) -> BlocksOut:
    """What no checkpoint and no upload under way needs is deleted; for a node that found the vault full."""
    found = await _ask(campus, lambda desk: desk.collect_garbage())
    return BlocksOut(blocks=found.blocks, stored_bytes=found.stored_bytes)


@router.post(
    "/jobs/{job_id}/seal",
    status_code=204,
    openapi_extra={"requestBody": {"required": True, "content": _MANIFEST}},
)
async def seal_checkpoint(job_id: JobName, campus: TheCampus, caller: NodeOnly, request: Request) -> None:
    """Makes a checkpoint durable, or says why not."""
    _has_a_run_of(campus, caller, job_id)
    manifest = await request.body()
    await _ask(campus, lambda desk: desk.seal(job_id, manifest))


@router.post("/jobs/{job_id}/copies/begin", status_code=204)
async def begin_copy(job_id: JobName, body: EpochIn, campus: TheCampus, caller: NodeOnly) -> None:
    """Says that a checkpoint is brought which another place has sealed. Its run may be an old one by now;
    new saves of that run stay refused."""
    _has_a_run_of(campus, caller, job_id)
    _was_begun(campus, job_id, body.epoch)
    await _ask(campus, lambda desk: desk.begin_copy(job_id, body.epoch))


@router.post(
    "/jobs/{job_id}/copies/seal",
    status_code=204,
    openapi_extra={"requestBody": {"required": True, "content": _MANIFEST}},
)
async def seal_copy(job_id: JobName, campus: TheCampus, caller: NodeOnly, request: Request) -> None:
    """Makes a copy durable, of an epoch that has begun in the vault; or says why not."""
    _has_a_run_of(campus, caller, job_id)
    manifest = await request.body()
    await _ask(campus, lambda desk: desk.adopt(job_id, manifest))


@router.get("/jobs/{job_id}/manifests")
async def sealed_manifests(job_id: JobName, campus: TheCampus, caller: NodeOnly) -> ManifestsOut:
    """Every readable one, oldest first."""
    _may_read(campus, caller, job_id)
    found = await _ask(campus, lambda desk: desk.sealed(job_id))
    return ManifestsOut(manifests=[manifest.decode() for manifest in found])


@router.get("/jobs/{job_id}/manifests/latest")
async def latest_manifest(job_id: JobName, campus: TheCampus, caller: NodeOnly) -> ManifestsOut:
    """None or one; a problem where the newest cannot be read."""
    _may_read(campus, caller, job_id)
    found = await _ask(campus, lambda desk: desk.latest(job_id))
    return ManifestsOut(manifests=[] if found is None else [found.decode()])


@router.post("/jobs/{job_id}/holds", status_code=201)
async def hold_checkpoint(job_id: JobName, body: HoldIn, campus: TheCampus, caller: NodeOnly) -> HoldOut:
    """Keeps a checkpoint from being forgotten for two minutes at a time, while it is read."""
    _may_read(campus, caller, job_id)
    return HoldOut(hold=await _ask(campus, lambda desk: desk.hold(job_id, body.checkpoint_id)))


@router.post("/holds/{hold}", status_code=204)
async def renew_hold(hold: HoldName, campus: TheCampus, _caller: NodeOnly) -> None:
    await _ask(campus, lambda desk: desk.renew(hold))


@router.delete("/holds/{hold}", status_code=204)
async def release_hold(hold: HoldName, campus: TheCampus, _caller: NodeOnly) -> None:
    await _ask(campus, lambda desk: desk.release(hold))


@router.post("/jobs/{job_id}/forget")
async def forget_checkpoints(
    job_id: JobName, body: KeepIn, campus: TheCampus, caller: NodeOnly
) -> ForgottenOut:
    """All but the newest so many."""
    _has_a_run_of(campus, caller, job_id)
    forgotten = await _ask(campus, lambda desk: desk.forget(job_id, body.keep))
    return ForgottenOut(checkpoints=list(forgotten))


def _may_read(campus: Campus, caller: Credential, job_id: str) -> None:
    """Whoever runs it, or was told to have its state lie ready."""
    job = campus.state.jobs.get(JobId(job_id))
    if job is None or job.copy_on(NodeId(caller.name)) is None:
        _has_a_run_of(campus, caller, job_id)


def _has_a_run_of(campus: Campus, caller: Credential, job_id: str) -> None:
    if not any(run.job_id == job_id and run.node_id == caller.name for run in campus.state.runs.values()):
        detail = f"{caller.name} was given no run of {job_id}"
        raise ApiError(403, "not_your_job", detail, "ask only for jobs this node was given")


def _was_begun(campus: Campus, job_id: str, epoch: int) -> None:
    """A copy must not shut out a run that is yet to come: there is one of its epoch already."""
    newest = campus.state.jobs[JobId(job_id)].epoch
    if epoch > newest:
        detail = f"{job_id} has had {newest} runs; there is no checkpoint of epoch {epoch}"
        raise ApiError(403, "unknown_epoch", detail, "copy only what a run of this job has saved")


async def _ask(campus: Campus, question: Callable[[VaultDesk], T]) -> T:
    try:
        return await asyncio.to_thread(lambda: question(campus.vault_desk()))
    except VaultFault as fault:
        status, code = FAULT_WORDS.get(type(fault), UNAVAILABLE_WORDS)
        raise ApiError(status, code, str(fault), NEXT_STEPS.get(type(fault), OF_THE_PLACE)) from fault
