"""Jobs: submit, list, look, ask why, stop."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from gpunion.coordinator.api import views
from gpunion.coordinator.api.access import Admin, TheCampus
from gpunion.coordinator.api.job_lists import listed_jobs
from gpunion.coordinator.api.problems import ApiError, not_found
from gpunion.coordinator.api.refusal_advice import nearest, way_out
from gpunion.coordinator.locations.space import wrong_with
from gpunion.coordinator.services import Campus
from gpunion.coordinator.usage.past_use import used_before, used_out
from gpunion.domain.ids import JobId
from gpunion.domain.image import find_listed
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import Job, JobSpec
from gpunion.domain.protocol.events import JobStopAsked, JobSubmitted
from gpunion.domain.reasons.reason import Reason, Verdict, Why
from gpunion.domain.reasons.wording import already_over
from gpunion.engine.coordinator import story
from gpunion.ports.database import LoggedDecision
from gpunion.vault.locations import CAMPUS
from gpunion.wire.image_archive import BadArchive
from gpunion.wire.v1 import convert
from gpunion.wire.v1 import job_requests as wishes
from gpunion.wire.v1 import jobs as wire

router = APIRouter(prefix="/jobs", tags=["jobs"])

# A story longer than this is read from its end backwards by nobody; the log itself has all of it.
STORY_LIMIT_LINES = 20_000
_PAGE = 1000
VAULT_KEY_BYTES = 32
PEER_KEY_BYTES = 32
SESSION_TOKEN_BYTES = 24
_KEY = Header(alias="Idempotency-Key", min_length=1, max_length=255)


@router.post("", status_code=201)
async def submit(
    job: wishes.JobIn,
    campus: TheCampus,
    caller: Admin,
    response: Response,
    idempotency_key: Annotated[str | None, _KEY] = None,
) -> wire.JobAnswer:
    spec = convert.spec_from(job, owner=job.user or caller.name)
    spec = replace(spec, places=campus.places.choose(job.place, job.replicas))
    if idempotency_key is None:
        return await _submit(campus, spec, None)
    key = f"{caller.kind}:{caller.name}:{idempotency_key}"
    async with campus.keyed:
        before = await campus.store.job_for_key(key)
        if before is None:
            return await _submit(campus, spec, key)
    response.headers["Idempotency-Replayed"] = "true"
    return await _replay(campus, before, spec)


@router.get("")
async def jobs(
    campus: TheCampus, _caller: Admin, query: Annotated[wishes.JobsQuery, Query()]
) -> wire.JobPage:
    state, cursor, oldest = campus.state, query.cursor, query.order == "oldest"
    found = listed_jobs(state, query)
    left = [one for one in found if cursor is None or (one > cursor if oldest else one < cursor)]
    page = left[: query.limit]
    return wire.JobPage(
        jobs=[
            views.held_out(state.held[one]) if one in state.held else views.job_out(campus, state.jobs[one])
            for one in page
        ],
        next_cursor=page[-1] if len(left) > len(page) else None,
        total=len(found),
    )


@router.get("/{job_id}")
async def job(job_id: str, campus: TheCampus, _caller: Admin) -> wire.JobDetail:
    held = campus.state.held.get(JobId(job_id))
    return views.job_detail(campus, find(campus, job_id)) if held is None else views.held_detail(held)


@router.get("/{job_id}/why")
async def why(job_id: str, campus: TheCampus, _caller: Admin) -> wire.Why:
    if (held := campus.state.held.get(JobId(job_id))) is not None:
        return _why_held(held, await _story(campus, held.id))
    told = await _story(campus, find(campus, job_id).id)
    job = find(campus, job_id)
    now = views.job_out(campus, job)
    return wire.Why(
        job_id=job.id,
        phase=now.phase,
        story=told,
        verdicts=views.verdicts(campus, job) if job.phase.waiting else [],
        waits=views.waits(campus, job),
        preparing=now.preparing,
        saving=now.saving,
        finishing=now.finishing,
        places={} if job.phase.over else await wrong_with(campus, job.spec.places or (CAMPUS,)),
    )


@router.post("/{job_id}/stop", status_code=202)
async def stop(job_id: str, campus: TheCampus, _caller: Admin) -> wire.JobAnswer:
    if (held := campus.state.held.get(JobId(job_id))) is not None:
        return await _give_up(campus, held)
    job = find(campus, job_id)
    if job.phase.over:  # not posted: its story is told, and to ask again is no part of it
        raise _is_over(job)
    outcome = await campus.loop.post(JobStopAsked(job_id=job.id))
    reasons = outcome.commit.decision.reasons
    if any(reason.why is Why.ALREADY_OVER and reason.subject == job.id for reason in reasons):
        raise _is_over(campus.state.jobs[job.id])
    return views.job_answer(campus, campus.state.jobs[job.id], reasons)


@router.get("/{job_id}/checkpoints")
async def checkpoints(job_id: str, campus: TheCampus, _caller: Admin) -> wire.CheckpointList:
    job = find(campus, job_id)
    asked_s = campus.clock.now_s()
    found = await campus.whereabouts.of(job)
    return wire.CheckpointList(checkpoints=views.checkpoints_of(campus, job.id, found, asked_s))


def _why_held(held: HeldJob, told: list[wire.StoryLine]) -> wire.Why:
    return wire.Why(
        job_id=held.id,
        phase=views.held_out(held).phase,
        story=told,
        verdicts=[],
        waits=[],
        preparing=None,
        saving=None,
        finishing=None,
        places={},
    )


async def _give_up(campus: Campus, held: HeldJob) -> wire.JobAnswer:
    if held.given_up:
        raise ApiError(409, "job_over", f"{held.id} is already given up", "nothing is left to stop")
    outcome = await campus.loop.post(JobStopAsked(job_id=held.id))
    reasons = [convert.reason_out(reason) for reason in outcome.commit.decision.reasons]
    return wire.JobAnswer(job=views.held_out(campus.state.held[held.id]), reasons=reasons, verdicts=[])


async def _story(campus: Campus, job_id: JobId) -> list[wire.StoryLine]:
    entries = [(line.at_s, reason) for line in await _history(campus, job_id) for reason in line.reasons]
    return [
        wire.StoryLine(
            at=convert.shown_time(line.at_s), code=line.why.value, sentence=line.sentence, times=line.times
        )
        for line in story.tell(entries, job_id)
    ]


def _is_over(job: Job) -> ApiError:
    return ApiError(409, "job_over", f"{job.id} {already_over(job.phase)}", "nothing is left to stop")


def find(campus: Campus, job_id: str) -> Job:
    job = campus.state.jobs.get(JobId(job_id))
    if job is None and JobId(job_id) in campus.state.held:
        detail = f"{job_id} is held: not all that was kept of it can be read"
        raise ApiError(409, "job_held", detail, f"gpunion why {job_id} tells more")
    if job is None:
        raise not_found(f"job {job_id[:64]}", "GET /api/v1/jobs lists the jobs there are")
    return job


async def _submit(campus: Campus, spec: JobSpec, key: str | None) -> wire.JobAnswer:
    await _check_program(campus, spec)
    job_id = campus.names.next()
    # From here on no sweep takes the directory, first because it was asked for just now, then as a job's.
    if spec.bundle is not None and not await asyncio.to_thread(campus.trees.claim, spec.bundle):
        raise _not_sent(campus, job_id, spec)
    vault_key = secrets.token_hex(VAULT_KEY_BYTES) if spec.checkpoint.encrypt else ""
    peer_key = secrets.token_hex(PEER_KEY_BYTES)
    session_token = secrets.token_hex(SESSION_TOKEN_BYTES) if spec.session is not None else ""
    submitted = JobSubmitted(
        job_id=job_id, spec=spec, vault_key=vault_key, peer_key=peer_key, session_token=session_token
    )
    outcome = await campus.loop.post(submitted, key=key)
    reasons = outcome.commit.decision.reasons
    job = campus.state.jobs.get(job_id)
    if job is None:
        raise _not_listed(job_id, reasons) or _impossible(job_id, reasons)
    before = used_before(campus.state, job.spec)
    used = None if before is None else used_out(*before)
    return views.job_answer(campus, job, reasons).model_copy(update={"used_before": used})


async def _check_program(campus: Campus, spec: JobSpec) -> None:
    """An image that says nothing to run is told at once, where the campus has it; else its machine tells."""
    if spec.image is None or spec.command or spec.entrypoint:
        return
    listed = find_listed(campus.state.images.values(), spec.image)
    if listed is None or listed.archive is None:
        return
    try:
        settings = await asyncio.to_thread(campus.archives.settings, listed.archive.digest)
    except (BadArchive, OSError):
        return
    if not settings.program(None, ()):
        detail = (
            f"nothing is to be run: no command is given, and {listed.image.name} has no ENTRYPOINT and no CMD"
        )
        raise ApiError(422, "nothing_to_run", detail, "give a command, like: -- python train.py")


def _not_sent(campus: Campus, job_id: JobId, spec: JobSpec) -> ApiError:
    """Why it would be refused in any case comes first: nobody should send a directory in vain."""
    asked = JobSubmitted(job_id=job_id, spec=spec)
    reasons = campus.station.engine.turns_away(campus.clock.now_s(), asked)
    if reasons:
        return _not_listed(job_id, reasons) or _impossible(job_id, reasons)
    detail = f"directory {spec.bundle} is not here, or not all of it"
    return ApiError(422, "bundle_missing", detail, f"PUT /api/v1/trees/{spec.bundle} first")


def _not_listed(job_id: JobId, reasons: tuple[Reason, ...]) -> ApiError | None:
    for reason in reasons:
        if reason.why is Why.SESSION_EXISTS and reason.subject == job_id:
            next_step = "open that one (gpunion notebook --name), or choose another name"
            return ApiError(409, "session_exists", reason.sentence(), next_step)
        if reason.why is Why.IMAGE_NOT_LISTED:
            next_step = "choose one of GET /api/v1/images, or ask the operator to add it"
            return ApiError(422, "image_not_listed", reason.sentence(), next_step)
        if reason.why is Why.ENVIRONMENT_NOT_PUBLISHED and reason.subject == job_id:
            next_step = "choose one of gpunion environments ls, or hand in a list of your own"
            return ApiError(422, "environment_not_published", reason.sentence(), next_step)
    return None


def _impossible(job_id: JobId, reasons: tuple[Reason, ...]) -> ApiError:
    verdicts = [
        Verdict(node=reason.subject, refusal=reason) for reason in reasons if reason.subject != job_id
    ]
    said = [reason.sentence() for reason in reasons if reason.subject == job_id]
    said += nearest(verdict.refusal for verdict in verdicts if verdict.refusal is not None)
    return ApiError(
        422,
        "impossible",
        "; ".join(said) or "no node of this campus could ever run it",
        way_out(verdict.refusal.why for verdict in verdicts if verdict.refusal is not None),
        verdicts=[convert.verdict_out(verdict) for verdict in verdicts],
    )


async def _replay(campus: Campus, job_id: JobId, spec: JobSpec) -> wire.JobAnswer:
    """The job made first, as it is now, with the reasons it was accepted for."""
    job = find(campus, job_id)
    if job.spec != spec:
        detail = f"this Idempotency-Key already made {job.id}, from another request"
        raise ApiError(409, "idempotency_conflict", detail, "use a new key for a new job")
    first = await campus.store.log(subject=job.id, limit=1)
    return views.job_answer(campus, job, first[0].reasons if first else ())


async def _history(campus: Campus, subject: str) -> list[LoggedDecision]:
    lines: list[LoggedDecision] = []
    while len(lines) < STORY_LIMIT_LINES:
        since = lines[-1].seq if lines else 0
        page = await campus.store.log(since_seq=since, subject=subject, limit=_PAGE)
        if not page:
            break
        lines += page
    return lines
