"""Which sessions there are, and how each one is."""

from __future__ import annotations

from fastapi import APIRouter

from gpunion.coordinator.api import views
from gpunion.coordinator.api.access import Admin, TheCampus
from gpunion.coordinator.api.problems import ApiError, not_found
from gpunion.coordinator.services import Campus
from gpunion.domain.ids import run_id
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.session import SessionEndAsked
from gpunion.domain.protocol.frames import Missing
from gpunion.domain.reasons.wording import already_over
from gpunion.engine.coordinator.runs.session_levels import level_of
from gpunion.engine.coordinator.sessions import Away, Here, Over, find, idle_end_s, reach
from gpunion.wire.v1 import convert
from gpunion.wire.v1 import jobs as wire

router = APIRouter(prefix="/sessions", tags=["sessions"])


@router.get("")
async def sessions_there_are(campus: TheCampus, _caller: Admin, all: bool = False) -> wire.SessionList:
    """The newest first. `all`: those too that are over."""
    found = [job for job in campus.state.jobs.values() if job.spec.session is not None]
    shown = [job for job in found if all or not job.phase.over]
    shown.sort(key=lambda job: (job.submitted_s, job.id), reverse=True)
    return wire.SessionList(sessions=[session_out(campus, job) for job in shown])


@router.get("/{name}")
async def session(name: str, campus: TheCampus, _caller: Admin) -> wire.SessionDetail:
    """By its name or its job's id."""
    job = session_named(campus, name)
    return wire.SessionDetail(**dict(session_out(campus, job)), token=job.session_token)


@router.post("/{name}/end", status_code=202)
async def end(name: str, campus: TheCampus, caller: Admin) -> wire.SessionDetail:
    """It keeps what it has, and ends; again: nothing more."""
    job = session_named(campus, name)
    if job.phase.over:
        detail = f"{job.spec.name} {already_over(job.phase)}"
        raise ApiError(409, "job_over", detail, "nothing is left to end")
    await campus.loop.post(SessionEndAsked(job_id=job.id, by=caller.name))
    return await session(job.id, campus, caller)


def session_named(campus: Campus, name: str) -> Job:
    job = find(campus.state, name)
    if job is None:
        raise not_found(f"session {name[:64]}", "GET /api/v1/sessions lists the sessions there are")
    return job


def session_out(campus: Campus, job: Job) -> wire.SessionOut:
    asked = job.spec.session
    assert asked is not None
    run, now_s = views.living_run(campus, job), campus.clock.now_s()
    heard = None if run is None else campus.state.sessions.get(run_id(job.id, job.epoch))
    note, shown = None if heard is None else heard.note, views.job_out(campus, job)
    found, node = reach(campus.state, job), None if run is None else campus.state.nodes.get(run.node_id)
    wanted_s = None if run is None else views.wanted_by_s(campus, run)
    limit_s = idle_end_s(asked, campus.timing)
    idle_s = None if heard is None else heard.idle_s(now_s)
    reach_now = None if note is None or run is None else level_of(campus.state, job, run, note)
    return wire.SessionOut(
        name=job.spec.name,
        job_id=job.id,
        kind=asked.kind.value,
        user=job.spec.owner,
        lab=job.spec.lab,
        phase=shown.phase,
        where=_in_words(found),
        here=isinstance(found, Here),
        node=shown.node_id,
        node_lab=None if node is None else node.facts.lab,
        ready=note is not None and note.ready,
        idle_s=idle_s,
        idle_end_s=limit_s,
        ends_in_s=None if idle_s is None or limit_s is None else max(0.0, limit_s - idle_s),
        level="" if reach_now is None else reach_now.level.value,
        level_why_not="" if reach_now is None else reach_now.why_not,
        kernels=0 if note is None else note.kernels,
        saved_ago_s=_later(
            None if note is None else note.saved_ago_s, None if heard is None else now_s - heard.heard_s
        ),
        saved_bytes=None if note is None else note.saved_bytes,
        restored="" if note is None else note.restored,
        missing=[] if note is None else _shown(note.missing),
        unsaved=[] if note is None else _shown(note.unsaved),
        no_ssh="" if note is None else note.no_ssh,
        leaving_in_s=None if wanted_s is None else max(0.0, wanted_s - now_s),
        leaving_why="" if run is None else run.wanted_why,
        moves=shown.moves,
        submitted_at=convert.shown_time(job.submitted_s),
        ended_at=convert.shown_time_or_none(job.ended_s),
    )


def _shown(lacking: tuple[Missing, ...]) -> list[wire.MissingOut]:
    return [wire.MissingOut(name=one.name, why=one.why) for one in lacking]


def _in_words(found: Here | Away | Over) -> str:
    match found:
        case Here(node_id=node_id):
            return f"it runs on {node_id}"
        case Away(where=where):
            return where
        case Over(how=how):
            return how


def _later(ago_s: float | None, since_s: float | None) -> float | None:
    return None if ago_s is None or since_s is None else ago_s + max(0.0, since_s)
