"""The campus's list of images: what is added and removed, by whom, and what that means for jobs."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.events import ImageAdded, ImageRemoved
from gpunion.domain.image import CampusImage, Image, ImagePhase
from gpunion.domain.job import Job
from gpunion.domain.reasons import Why
from gpunion.engine.draft import Draft


def added(draft: Draft, event: ImageAdded) -> None:
    ref = event.image.ref
    known = draft.state.images.get(ref)
    archive = event.archive or (known.archive if known is not None and known.listed else None)
    if known is not None and known.listed and known.archive == archive:
        return
    entry = CampusImage(
        id=ref,
        phase=ImagePhase.LISTED,
        image=event.image,
        archive=archive,
        added_s=draft.now_s,
        added_by=event.by,
    )
    draft.put(entry)
    draft.because(ref, Why.IMAGE_ADDED, by=event.by, image=ref)
    for job in _jobs_in(draft, event.image):
        draft.put(replace(job, image=entry.parcel, image_barred=False))
        draft.because(job.id, Why.IMAGE_ADDED, by=event.by, image=ref)


def removed(draft: Draft, event: ImageRemoved) -> None:
    """Guests that run in it stay; from now on nobody is started in it."""
    ref = event.image.ref
    known = draft.state.images.get(ref)
    if known is None or not known.listed:
        return
    draft.put(replace(known, phase=ImagePhase.REMOVED, archive=None))
    draft.because(ref, Why.IMAGE_REMOVED, by=event.by, image=ref)
    for job in _jobs_in(draft, event.image):
        draft.put(replace(job, image_barred=True))
        draft.because(job.id, Why.IMAGE_REMOVED, by=event.by, image=ref)


def _jobs_in(draft: Draft, image: Image) -> list[Job]:
    jobs = (draft.state.jobs[job_id] for job_id in sorted(draft.state.jobs))
    return [job for job in jobs if job.image is not None and job.image.image == image and not job.phase.over]
