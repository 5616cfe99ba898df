"""The campus's lists of images and environments: what is added and removed, by whom, and what that means."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.environment import CampusEnvironment, EnvironmentAdded, EnvironmentRemoved
from gpunion.domain.image import CampusImage, Image, ImageAdded, ImagePhase, ImageRemoved
from gpunion.domain.jobs.job import Job
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft


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


def environment_added(draft: Draft, event: EnvironmentAdded) -> None:
    """For jobs from now on. Those that have another list of that name keep theirs."""
    packages = event.packages
    known = draft.state.environments.get(packages.name)
    if known is not None and not known.removed and known.packages == packages:
        return
    entry = CampusEnvironment(id=packages.name, packages=packages, added_s=draft.now_s, added_by=event.by)
    draft.put(entry)
    draft.because(packages.name, Why.ENVIRONMENT_ADDED, by=event.by, environment=packages.name)
    for job in _jobs_with(draft, packages.name):
        if job.packages == packages and job.packages_barred:
            draft.put(replace(job, packages_barred=False))
            draft.because(job.id, Why.ENVIRONMENT_ADDED, by=event.by, environment=packages.name)


def environment_removed(draft: Draft, event: EnvironmentRemoved) -> None:
    """Guests that use it stay; from now on nobody is started with it."""
    known = draft.state.environments.get(event.name)
    if known is None or known.removed:
        return
    draft.put(replace(known, removed=True))
    draft.because(event.name, Why.ENVIRONMENT_REMOVED, by=event.by, environment=event.name)
    for job in _jobs_with(draft, event.name):
        draft.put(replace(job, packages_barred=True))
        draft.because(job.id, Why.ENVIRONMENT_REMOVED, by=event.by, environment=event.name)


def _jobs_with(draft: Draft, name: str) -> list[Job]:
    jobs = (draft.state.jobs[job_id] for job_id in sorted(draft.state.jobs))
    return [
        job for job in jobs if job.packages is not None and job.packages.name == name and not job.phase.over
    ]
