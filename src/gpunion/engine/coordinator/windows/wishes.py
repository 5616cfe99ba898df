"""What the owner of a job lets it bid for, changed while it waits or runs: from its next window on."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.job import BidsChanged, Job, WindowWish
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.windows import promises
from gpunion.text import duration_in_words


def changed(draft: Draft, event: BidsChanged) -> None:
    job = draft.state.jobs.get(event.job_id)
    if job is None:
        draft.because(event.job_id, Why.UNKNOWN_JOB)
        return
    if job.phase.over:
        draft.because(job.id, Why.ALREADY_OVER, phase=job.phase.value)
        return
    if not job.spec.atomizable or event.windows == job.spec.windows:
        return
    job = replace(job, spec=replace(job.spec, windows=event.windows))
    if job.promised is not None and _gives_up(job, event.windows):
        promises.drop(draft, job)
        job = replace(job, promised=None)
    draft.put(job)
    draft.because(job.id, Why.BIDS_CHANGED, bids=in_words(event.windows))
    draft.look_again = True


def in_words(wish: WindowWish) -> str:
    if not wish.bids:
        return "nothing, until its owner lets it bid again"
    said = []
    if wish.shortest_s is not None:
        said.append(f"none shorter than {duration_in_words(wish.shortest_s)}")
    if wish.longest_s is not None:
        said.append(f"no piece longer than {duration_in_words(wish.longest_s)}")
    if wish.not_on:
        said.append(f"nothing on {', '.join(wish.not_on)}")
    return "; ".join(said) or "all windows that it fits"


def _gives_up(job: Job, wish: WindowWish) -> bool:
    return job.holds_back or (job.promised is not None and job.promised.node_id in wish.not_on)
