"""The campus's vault for nodes that share no file system with it.

A node speaks for the runs it was given and for no other (`engine.coordinator.vault_rights`). Blocks are
known by the hash of what is in them: who can name one has seen it or a manifest that names it, and what is
put is verified.
What is put for a job with a key cannot be: it is kept among that job's own blocks, where it harms no others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Response
from starlette.requests import Request

from gpunion.coordinator.api.access import NodeOnly, TheCampus
from gpunion.coordinator.api.problems import ApiError, refused
from gpunion.coordinator.services import Campus
from gpunion.domain.ids import CheckpointId, JobId, NodeId
from gpunion.engine.coordinator.vault_rights import (
    Refusal,
    VaultRights,
    counted_on,
    rights_of,
    why_not_share_blocks,
)
from gpunion.ports.database import Credential
from gpunion.vault.interfaces import FAULT_WORDS, UNAVAILABLE_WORDS, JudgedDesk
from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    Manifest,
    MissingBlock,
    OldEpoch,
    UnknownCheckpoint,
    VaultFault,
    VaultFull,
)
from gpunion.wire.v1.job_directories import BlocksOut
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
_MANIFEST = {"application/x-ndjson": {"schema": {"type": "string", "format": "binary"}}}

NEXT_STEPS: dict[type[VaultFault], str] = {
    OldEpoch: "end this run: a newer one of its job has begun",
    MissingBlock: "put what is missing, then ask again",
    CorruptBlock: "send it again",
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
    _let(_rights(campus, caller, job_id).why_not_save(body.epoch))
    await _ask(campus, lambda desk: desk.begin(job_id, body.epoch))


@router.post("/has")
async def has_blocks(body: NamesIn, campus: TheCampus, caller: NodeOnly) -> NamesOut:
    """Those of the blocks that need not be put."""
    _let(_of_shared(campus, caller, reading=True))
    return NamesOut(blocks=sorted(await _ask(campus, lambda desk: desk.has(body.blocks))))


@router.put(
    "/blocks/{name}",
    status_code=204,
    openapi_extra={"requestBody": {"required": True, "content": _STORED}},
)
async def put_block(name: BlockName, campus: TheCampus, caller: NodeOnly, request: Request) -> None:
    """A block as the vault stores it, which is unpacked and verified."""
    _let(_of_shared(campus, caller))
    stored = await request.body()
    await _ask(campus, lambda desk: desk.put(name, stored))


@router.get("/blocks/{name}", response_class=Response, responses={200: {"content": _STORED}})
async def get_block(name: BlockName, campus: TheCampus, caller: NodeOnly) -> Response:
    """As it is stored."""
    _let(_of_shared(campus, caller, reading=True))
    stored = await _ask(campus, lambda desk: desk.fetch(name))
    return Response(stored, media_type=STORED_TYPE)


@router.post("/blocks/{name}/doubt", status_code=204)
async def doubt_block(name: BlockName, campus: TheCampus, caller: NodeOnly) -> None:
    """It arrived damaged: the vault looks for itself."""
    _let(_of_shared(campus, caller, reading=True))
    await _ask(campus, lambda desk: desk.doubt(name))


@router.post("/jobs/{job_id}/has")
async def has_own_blocks(job_id: JobName, body: NamesIn, campus: TheCampus, caller: NodeOnly) -> NamesOut:
    """The same of a job whose checkpoints are encrypted: its blocks are its own."""
    _let(_rights(campus, caller, job_id).why_not_touch_blocks())
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
    _let(_rights(campus, caller, job_id).why_not_touch_blocks())
    stored = await request.body()
    await _ask(campus, lambda desk: desk.put(name, stored, job_id))


@router.get("/jobs/{job_id}/blocks/{name}", response_class=Response, responses={200: {"content": _STORED}})
async def get_own_block(job_id: JobName, name: BlockName, campus: TheCampus, caller: NodeOnly) -> Response:
    _let(_rights(campus, caller, job_id).why_not_touch_blocks())
    return Response(await _ask(campus, lambda desk: desk.fetch(name, job_id)), media_type=STORED_TYPE)


@router.post("/jobs/{job_id}/blocks/{name}/doubt", status_code=204)
async def doubt_own_block(job_id: JobName, name: BlockName, campus: TheCampus, caller: NodeOnly) -> None:
    """It arrived damaged: the vault compares its checksum."""
    _let(_rights(campus, caller, job_id).why_not_touch_blocks())
    await _ask(campus, lambda desk: desk.doubt(name, job_id))


@router.post("/collect")
async def collect_garbage(campus: TheCampus, caller: NodeOnly) -> BlocksOut:
    """What no checkpoint and no upload under way needs is deleted; for a node that found the vault full."""
    _let(_of_shared(campus, caller))
    found = await _ask(campus, lambda desk: desk.collect_garbage())
    return BlocksOut(blocks=found.blocks, stored_bytes=found.stored_bytes)


@router.post(
    "/jobs/{job_id}/seal",
    status_code=204,
    openapi_extra={"requestBody": {"required": True, "content": _MANIFEST}},
)
async def seal_checkpoint(job_id: JobName, campus: TheCampus, caller: NodeOnly, request: Request) -> None:
    """Makes a checkpoint durable, or says why not."""
    rights = _rights(campus, caller, job_id)
    _let(rights.why_not_save_any())  # before the body is read: it may be large

    def judge(found: Manifest) -> None:
        _let(rights.why_not_seal(found.epoch, found.checkpoint_id))

    async with campus.bodies.of(request) as manifest:
        await _ask(campus, lambda desk: desk.seal(job_id, manifest, judge))


@router.post("/jobs/{job_id}/copies/begin", status_code=204)
async def begin_copy(job_id: JobName, body: EpochIn, campus: TheCampus, caller: NodeOnly) -> None:
    """Says that a checkpoint is brought which another place has sealed. Its run may be an old one by now;
    new saves of that run stay refused."""
    _let(_rights(campus, caller, job_id).why_not_bring(body.epoch))
    await _ask(campus, lambda desk: desk.begin_copy(job_id, body.epoch))


@router.post(
    "/jobs/{job_id}/copies/seal",
    status_code=204,
    openapi_extra={"requestBody": {"required": True, "content": _MANIFEST}},
)
async def seal_copy(job_id: JobName, campus: TheCampus, caller: NodeOnly, request: Request) -> None:
    """Makes a copy durable, of an epoch that has begun in the vault; or says why not."""
    rights = _rights(campus, caller, job_id)
    _let(rights.why_not_touch_blocks())

    def judge(found: Manifest) -> None:
        _let(rights.why_not_copy(found.epoch, found.checkpoint_id, found.step))

    async with campus.bodies.of(request) as manifest:
        await _ask(campus, lambda desk: desk.adopt(job_id, manifest, judge))


@router.get("/jobs/{job_id}/manifests", response_model=ManifestsOut)
async def sealed_manifests(job_id: JobName, campus: TheCampus, caller: NodeOnly) -> Response:
    """Every readable one, oldest first; to who runs the job no more, those that its own runs sealed."""
    rights = _rights(campus, caller, job_id)
    _let(rights.why_not_read())
    async with campus.bodies.answering:
        return await _ask(
            campus, lambda desk: _written(desk.sealed(job_id, lambda manifest: rights.shows(manifest.epoch)))
        )


@router.get("/jobs/{job_id}/manifests/latest", response_model=ManifestsOut)
async def latest_manifest(job_id: JobName, campus: TheCampus, caller: NodeOnly) -> Response:
    """None or one; a problem where the newest cannot be read."""
    _let(_rights(campus, caller, job_id).why_not_read_newest())

    def latest(desk: JudgedDesk) -> Response:
        found = desk.latest(job_id)
        return _written([] if found is None else [found])

    return await _ask(campus, latest)


@router.post("/jobs/{job_id}/holds", status_code=201)
async def hold_checkpoint(job_id: JobName, body: HoldIn, campus: TheCampus, caller: NodeOnly) -> HoldOut:
    """Keeps a checkpoint from being forgotten for two minutes at a time, while it is read."""
    _let(_rights(campus, caller, job_id).why_not_hold(body.checkpoint_id))
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
    """All but the newest so many, and what the campus counts on: whoever runs a job knows when there is too
    much of it, and does not say what may go."""
    _let(_rights(campus, caller, job_id).why_not_save_any())
    job = campus.state.jobs.get(JobId(job_id))
    if job is None:  # it is held: nobody knows what it may yet need
        return ForgottenOut(checkpoints=[])
    kept = counted_on(campus.state, job)
    forgotten = await _ask(campus, lambda desk: _forget_all_but(desk, job_id, body.keep, kept))
    return ForgottenOut(checkpoints=list(forgotten))


def _forget_all_but(
    desk: JudgedDesk, job_id: str, keep: int, kept: Collection[CheckpointId]
) -> tuple[str, ...]:
    """What is held stays."""
    holds = []
    try:
        for checkpoint_id in sorted(kept):
            with suppress(UnknownCheckpoint):  # in another place, or made no room for any more
                holds.append(desk.hold(job_id, checkpoint_id))
        return desk.forget(job_id, keep)
    finally:
        for hold in holds:
            desk.release(hold)


def _written(manifests: list[bytes]) -> Response:
    """By whoever read them, in a thread: others have their turn meanwhile."""
    body = json.dumps({"manifests": [manifest.decode() for manifest in manifests]})
    return Response(body, media_type="application/json")


def _rights(campus: Campus, caller: Credential, job_id: str) -> VaultRights:
    """As they are now: a question is judged by what was committed when it came."""
    return rights_of(campus.state, NodeId(caller.name), JobId(job_id))


def _of_shared(campus: Campus, caller: Credential, *, reading: bool = False) -> Refusal | None:
    return why_not_share_blocks(campus.state, NodeId(caller.name), reading=reading)


def _let(refusal: Refusal | None) -> None:
    if refusal is not None:
        raise refused(refusal)


async def _ask(campus: Campus, question: Callable[[JudgedDesk], T]) -> T:
    try:
        return await asyncio.to_thread(lambda: question(campus.vault_desk()))
    except VaultFault as fault:
        status, code = FAULT_WORDS.get(type(fault), UNAVAILABLE_WORDS)
        raise ApiError(status, code, str(fault), NEXT_STEPS.get(type(fault), OF_THE_PLACE)) from fault
