"""A user's wishes: run this, stop that."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.events import JobStopAsked, JobSubmitted
from gpunion.domain.gang import Seat, member_id
from gpunion.domain.image import find_listed
from gpunion.domain.job import Job, JobPhase
from gpunion.domain.orders import StopRun
from gpunion.domain.reasons import Why
from gpunion.domain.run import RunPhase
from gpunion.engine import gang_places, gangs, moving, planner
from gpunion.engine.draft import Draft
from gpunion.engine.refusals import blockers
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
    )
    if event.spec.image is not None:
        listed = find_listed(draft.state.images.values(), event.spec.image)
        if listed is None:
            draft.because(job.id, Why.IMAGE_NOT_LISTED, image=event.spec.image)
            return
        job = replace(job, image=listed.parcel)
    if planner.impossible(draft, job):
        verdicts = planner.verdicts(draft, job)
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
        draft.put(replace(job, phase=cancelled, ended_s=draft.now_s))
        draft.because(job.id, Why.CANCELLED)
        return
    moving.abandon(draft, job)
    job = draft.state.jobs[job.id]
    draft.put(replace(job, phase=JOB.check(job.id, job.phase, JobPhase.STOPPING)))
    draft.put(replace(run, phase=RUN.check(run.id, run.phase, RunPhase.STOPPING)))
    draft.order(run.node_id, StopRun(run_id=run.id, job_id=job.id, epoch=run.epoch))
