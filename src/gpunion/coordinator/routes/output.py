"""What a job has made: the list of its output, and the blocks of it, out of the vault.

When a run ends its output is sealed; until then the newest checkpoint has what was there when it was taken.
The coordinator only reads: it must be able to reach the vault's place, as nodes do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Path, Response
from starlette.responses import StreamingResponse

from gpunion.coordinator.api.access import Admin, TheCampus
from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.routes.jobs import find
from gpunion.coordinator.services import Campus
from gpunion.domain.jobs.job import Job
from gpunion.vault.job_directories import encode_record, frame
from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    JobKey,
    Manifest,
    MissingBlock,
    NothingSavedYet,
    UnknownCheckpoint,
    Vault,
    VaultFault,
)
from gpunion.vault.tree import FileEntry
from gpunion.wire.v1.job_directories import OutputBlocksIn

router = APIRouter(prefix="/jobs", tags=["jobs"])

OUTPUT_TIER, OUTPUT_PART = "output", "output/"
STREAM_TYPE = "application/octet-stream"
_STREAM = {STREAM_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_LIST = {"application/json": {"schema": {"type": "object"}}}
JobName = Annotated[str, Path(max_length=128)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    checkpoint_id: str
    final: bool  # as its program left it; else as its newest checkpoint has it
    step: int
    files: tuple[FileEntry, ...]


@router.get("/{job_id}/output", response_class=Response, responses={200: {"content": _LIST}})
async def output(job_id: JobName, campus: TheCampus, _caller: Admin) -> Response:
    """{job_id, checkpoint_id, final, step, format, files}, the last two as a directory's list has them."""
    job = find(campus, job_id)
    found = await asyncio.to_thread(_find_output, campus, job)
    head = {
        "job_id": job.id,
        "checkpoint_id": found.checkpoint_id,
        "final": found.final,
        "step": found.step,
    }
    # By hand, in a thread: names that are not UTF-8 survive as escapes, which the usual encoder refuses.
    body = await asyncio.to_thread(lambda: b"".join(encode_record(head, found.files)))
    return Response(body, media_type="application/json")


@router.post(
    "/{job_id}/output/blocks", response_class=StreamingResponse, responses={200: {"content": _STREAM}}
)
async def output_blocks(
    job_id: JobName, wanted: OutputBlocksIn, campus: TheCampus, _caller: Admin
) -> StreamingResponse:
    """A stream of those blocks; one that cannot be read is left out."""
    job = find(campus, job_id)
    vault, manifest = await asyncio.to_thread(_sealed, campus, job, wanted.checkpoint_id)
    known = {name for entry in manifest.files for name in entry.blocks}
    strangers = [name for name in wanted.blocks if name not in known]
    if strangers:
        detail = f"{wanted.checkpoint_id} has no block {strangers[0]}"
        raise ApiError(404, "not_found", detail, f"GET /api/v1/jobs/{job.id}/output lists what there is")
    return StreamingResponse(_stream(vault, wanted.blocks), media_type=STREAM_TYPE)


async def _stream(vault: Vault, names: list[str]) -> AsyncIterator[bytes]:
    for name in names:
        try:
            yield frame(await asyncio.to_thread(vault.read_block, name), name)
        except (MissingBlock, CorruptBlock):
            continue


def _find_output(campus: Campus, job: Job) -> Output:
    if job.output is not None:
        return _output(_made(campus, job, job.output), final=True)
    for manifest in reversed(_saved(campus, job)):
        if manifest.tier != OUTPUT_TIER:
            return _output(manifest, final=False)
    if job.phase.over:
        detail = f"{job.id} is over ({job.phase.value}) and left nothing in GPUNION_OUTPUT_DIR"
        raise ApiError(404, "no_output", detail, f"its words are in: gpunion logs {job.id}")
    detail = f"{job.id} is {job.phase.value} and nothing of it is saved yet"
    raise ApiError(404, "no_output", detail, "ask again when it has saved a checkpoint, or has ended")


def _saved(campus: Campus, job: Job) -> list[Manifest]:
    """Oldest first."""
    try:
        found = _open(campus, job).manifests(job.id)
    except NothingSavedYet:  # of any job
        return []
    except VaultFault as fault:
        raise _unavailable(campus, job, fault) from fault
    return sorted(found, key=lambda manifest: (manifest.epoch, manifest.step))


def _made(campus: Campus, job: Job, output: str) -> Manifest:
    """What its program left. One that a repair took out of view does not come back by asking again."""
    try:
        return _open(campus, job).get(job.id, output)
    except UnknownCheckpoint as error:
        detail = f"what {job.id} made is gone: the vault does not have {output} any more"
        next_step = (
            "the operator may have a copy of the vault (gpunion vault repair --from); else run it again"
        )
        raise ApiError(404, "output_gone", detail, next_step) from error
    except BadManifest as error:
        detail = f"the vault cannot read {output}: {error}"
        next_step = "the operator finds out more with: gpunion vault verify"
        raise ApiError(503, "vault_unavailable", detail, next_step) from error
    except VaultFault as fault:
        raise _unavailable(campus, job, fault) from fault


def _output(manifest: Manifest, *, final: bool) -> Output:
    files = manifest.files
    if manifest.tier != OUTPUT_TIER:
        files = tuple(
            replace(entry, path=entry.path.removeprefix(OUTPUT_PART))
            for entry in files
            if entry.path.startswith(OUTPUT_PART)
        )
    return Output(checkpoint_id=manifest.checkpoint_id, final=final, step=manifest.step, files=files)


def _sealed(campus: Campus, job: Job, checkpoint_id: str) -> tuple[Vault, Manifest]:
    try:
        vault = _open(campus, job)
        return vault, vault.get(job.id, checkpoint_id)
    except (UnknownCheckpoint, NothingSavedYet) as error:
        detail = f"{checkpoint_id} of {job.id} is no longer there; a newer one is"
        next_step = f"GET /api/v1/jobs/{job.id}/output again, and fetch what that lists"
        raise ApiError(409, "output_changed", detail, next_step) from error
    except VaultFault as fault:
        raise _unavailable(campus, job, fault) from fault


def _open(campus: Campus, job: Job) -> Vault:
    vault = campus.open_vault(job.spec.places)
    if not job.vault_key:
        return vault
    return vault.keyed(JobKey(job_id=job.id, secret=bytes.fromhex(job.vault_key)))


def _unavailable(campus: Campus, job: Job, fault: VaultFault) -> ApiError:
    where = job.spec.places[0] if job.spec.places else campus.vault
    detail = f"the coordinator cannot read the vault at {where}: {fault}"
    return ApiError(503, "vault_unavailable", detail, "the operator lets the coordinator's machine reach it")
