"""Runs whose program has ended, while what it made is on its way to where it is kept.

Such a run keeps its memory and its disk, and computes nothing: its GPUs are free for others. Those of a
member of a gang are not: if another is interrupted, all run again, each in the place that is kept for it.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.protocol.events import ProgramEnded
from gpunion.domain.protocol.reports import OutputArrived
from gpunion.domain.protocol.timers import SaveDue
from gpunion.domain.reasons.reason import Why
from gpunion.domain.reasons.wording import TROUBLE_IN_WORDS
from gpunion.engine.coordinator.draft import Draft

# All of it is an agent's word.
_CODE_CHARS, _DETAIL_CHARS = 40, 500
_WORDS = {trouble.value: words for trouble, words in TROUBLE_IN_WORDS.items()}
_STARTED = frozenset({RunPhase.RUNNING, RunPhase.LEAVING, RunPhase.STOPPING})


def heard(draft: Draft, event: ProgramEnded) -> None:
    """With a heartbeat, and with each until it has ended: what is known already changes nothing."""
    note = event.note
    run = draft.state.runs.get(note.run_id)
    if run is None or run.node_id != event.node_id or not news(run, note.trouble):
        return
    trouble = note.trouble[:_CODE_CHARS]
    if not trouble:
        program_ended(draft, run)
        return
    job = draft.job_of(run)
    _put(draft, replace(run, output_trouble=trouble))
    draft.because(
        job.id,
        Why.OUTPUT_NOT_TAKEN,
        node=run.node_id,
        trouble=_in_words(trouble, note.detail[:_DETAIL_CHARS]),
        next=_what_to_do(job, run, trouble),
    )


def program_ended(draft: Draft, run: Run) -> None:
    if news(run, ""):
        _put(draft, run)
        draft.because(run.job_id, Why.OUTPUT_ON_ITS_WAY, node=run.node_id)


def news(run: Run, trouble: str) -> bool:
    """A trouble is told once, however often it is met. One that is not heard of again may not be over."""
    if run.phase not in _STARTED:
        return False
    return run.over_s is None or trouble[:_CODE_CHARS] not in ("", run.output_trouble)


def _put(draft: Draft, run: Run) -> None:
    alone = draft.job_of(run).spec.seat is None
    if alone:
        draft.cancel_timer(SaveDue(run_id=run.id))
    over_s = draft.now_s if run.over_s is None else run.over_s
    draft.put(replace(run, over_s=over_s, gpus_back=run.gpus_back or alone))


def trouble_in_words(trouble: str) -> str:
    """Also a newer agent's word."""
    return _WORDS.get(trouble, "it was not taken where it is kept")


def _in_words(trouble: str, detail: str) -> str:
    return f"{trouble_in_words(trouble)} ({detail})" if detail else trouble_in_words(trouble)


def _what_to_do(job: Job, run: Run, trouble: str) -> str:
    where = f"of {', '.join(job.spec.places)}" if job.spec.places else "of the campus's vault"
    match trouble:
        case CheckpointTrouble.VAULT_FULL:
            return f"the operator {where} makes room there"
        case CheckpointTrouble.VAULT_UNAVAILABLE:
            return f"the operator {where} brings it back"
        case CheckpointTrouble.DISK_FULL:
            return f"the owner of {run.node_id} makes room on its disk"
        case CheckpointTrouble.DISK_FAILED:
            return f"the owner of {run.node_id} looks after its disk"
        case _:
            return f"ask the operator {where}"


def output_arrived(draft: Draft, node_id: NodeId, report: OutputArrived) -> None:
    """From the machine that had kept it. The job has failed for want of it, or for a reason of its own."""
    job = draft.state.jobs[report.job_id]
    if job.epoch != report.epoch or job.output is not None or not job.phase.over:
        return
    draft.put(replace(job, output=report.output))
    draft.because(job.id, Why.OUTPUT_ARRIVED, node=node_id, job=job.id)
