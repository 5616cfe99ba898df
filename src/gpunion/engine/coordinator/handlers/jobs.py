"""A user's wishes: run this, stop that; and a session that ends since nobody works in it."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.image import find_listed
from gpunion.domain.jobs.gang import Seat, member_id
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.jobs.session import SessionEndAsked, SessionIdle
from gpunion.domain.protocol.events import JobStopAsked, JobSubmitted
from gpunion.domain.protocol.orders import EndSession, StopRun
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator import held, sessions
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import gang_placement as gang_places
from gpunion.engine.coordinator.planning import placement
from gpunion.engine.coordinator.planning.refusals import blockers
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.run import RUN


def submitted(draft: Draft, event: JobSubmitted) -> None:
    if event.job_id in draft.state.jobs:
        return
    job = Job(
        id=event.job_id,
        spec=event.spec,
        phase=JobPhase.PENDING,
        submitted_s=draft.now_s,
        waiting_since_s=draft.now_s,
        vault_key=event.vault_key,
        peer_key=event.peer_key,
        session_token=event.session_token,
    )
    if event.spec.image is not None:
        listed = find_listed(draft.state.images.values(), event.spec.image)
        if listed is None:
            draft.because(job.id, Why.IMAGE_NOT_LISTED, image=event.spec.image)
            return
        job = replace(job, image=listed.parcel)
    if event.spec.packages is not None:
        published = draft.state.environments.get(event.spec.packages)
        if published is None or published.removed:
            draft.because(job.id, Why.ENVIRONMENT_NOT_PUBLISHED, environment=event.spec.packages)
            return
        job = replace(job, packages=published.packages)
    other = None if event.spec.session is None else sessions.find(draft.state, event.spec.name)
    if other is not None and not other.phase.over:  # two that live would be one address
        draft.because(job.id, Why.SESSION_EXISTS, name=event.spec.name, job=other.id)
        return
    if placement.impossible(draft, job):
        verdicts = placement.verdicts(draft, job)
        draft.because(job.id, Why.IMPOSSIBLE, blockers=blockers(verdicts))
        for verdict in verdicts:
            if verdict.refusal is not None:
                draft.add_reason(verdict.refusal)
        return
    seat = event.spec.seat
    if seat is not None and gang_places.impossible(draft, job, seat):
        return
    for rank in range(1 if seat is None else seat.size):
        _accept(draft, job if seat is None else _member(job, seat, rank))


def _accept(draft: Draft, job: Job) -> None:
    draft.put(job)
    draft.because(job.id, Why.SUBMITTED, owner=job.spec.owner)
    if job.spec.seat is not None:
        draft.because(job.id, Why.GANG_SEAT, rank=job.spec.seat.rank, size=job.spec.seat.size)
    if job.image is not None:
        draft.because(job.id, Why.IMAGE_PINNED, image=job.image.image.ref)


def _member(leader: Job, seat: Seat, rank: int) -> Job:
    spec = replace(leader.spec, seat=replace(seat, rank=rank))
    return replace(leader, id=member_id(leader.id, rank), spec=spec)


def stop_asked(draft: Draft, event: JobStopAsked) -> None:
    job = draft.state.jobs.get(event.job_id)
    if job is None and (unreadable := draft.state.held.get(event.job_id)) is not None:
        held.give_up(draft, unreadable)
        return
    if job is None:
        draft.because(event.job_id, Why.UNKNOWN_JOB)
        return
    if job.phase.over:
        draft.because(job.id, Why.ALREADY_OVER, phase=job.phase.value)
        return
    if job.phase is JobPhase.STOPPING:
        return
    for one in gangs.members(draft, job):
        if not one.phase.over:
            _stop(draft, one)


def _stop(draft: Draft, job: Job) -> None:
    draft.because(job.id, Why.STOP_ASKED)
    run = moving.current_run(draft, job)
    if run is None:
        moving.abandon(draft, job)
        job = draft.state.jobs[job.id]
        cancelled = JOB.check(job.id, job.phase, JobPhase.CANCELLED)
        draft.put(replace(job, phase=cancelled, ended_s=draft.now_s, awaits=None))
        draft.because(job.id, Why.CANCELLED)
        return
    moving.abandon(draft, job)
    job = draft.state.jobs[job.id]
    draft.put(replace(job, phase=JOB.check(job.id, job.phase, JobPhase.STOPPING)))
    draft.put(replace(run, phase=RUN.check(run.id, run.phase, RunPhase.STOPPING)))
    draft.order(run.node_id, StopRun(run_id=run.id, job_id=job.id, epoch=run.epoch))


def session_end_asked(draft: Draft, event: SessionEndAsked) -> None:
    job = draft.state.jobs.get(event.job_id)
    if job is None or job.phase.over or job.spec.session is None:
        return
    run = moving.current_run(draft, job)
    if run is None or run.phase is RunPhase.ORDERED:
        stop_asked(draft, JobStopAsked(job_id=job.id))  # there is nothing that it could save
        return
    if run.end_asked_s is None:
        draft.because(job.id, Why.SESSION_END_ASKED, by=event.by)
        _end_session(draft, run, "its user ends it")


def session_idle(draft: Draft, event: SessionIdle) -> None:
    run = draft.state.runs.get(event.run_id)
    job = None if run is None else draft.state.jobs.get(run.job_id)
    if run is None or job is None or not run.living or run.phase is not RunPhase.RUNNING:
        return
    limit_s = sessions.idle_end_s(job.spec.session, draft.timing)
    if run.end_asked_s is not None:
        if draft.now_s - run.end_asked_s >= sessions.END_LIMIT_S:
            draft.because(job.id, Why.SESSION_DOES_NOT_END, for_s=draft.now_s - run.end_asked_s)
            stop_asked(draft, JobStopAsked(job_id=job.id))
        return
    if limit_s is not None and event.idle_s >= limit_s:
        draft.because(job.id, Why.SESSION_IDLE_END, idle_s=event.idle_s)
        _end_session(draft, run, "nobody has worked in it for long")
    elif event.warns != run.idle_told:
        draft.put(replace(run, idle_told=event.warns))
        if event.warns and limit_s is not None:
            draft.because(job.id, Why.SESSION_IDLE, idle_s=event.idle_s, left_s=limit_s - event.idle_s)


def _end_session(draft: Draft, run: Run, why: str) -> None:
    draft.put(replace(run, end_asked_s=draft.now_s))
    order = EndSession(run_id=run.id, job_id=run.job_id, epoch=run.epoch, because=why)
    draft.order(run.node_id, order)
