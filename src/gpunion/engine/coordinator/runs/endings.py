"""How a run ended against its will, as its agent tells it: since when it stood still, and why."""

from __future__ import annotations

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Cause, Migration
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.protocol.reports import RunEnded
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft


def stood_still(draft: Draft, run: Run, report: RunEnded, migration: Migration | None = None) -> float:
    """Since when. Its last save may have been heard of first, as `migration` says; after an outage both
    words come late, and the agent's own time is the truer one."""
    since_s = draft.now_s if migration is None or migration.stopped_s is None else migration.stopped_s
    if run.parked_s is not None:
        return min(since_s, run.parked_s)
    if report.reason is EndReason.NODE_LOST:
        return min(since_s, draft.state.nodes[run.node_id].phase_since_s)
    return min(since_s, _ended_s(draft, run, report))


def _ended_s(draft: Draft, run: Run, report: RunEnded) -> float:
    """As its agent has it. A clock that names a moment before the run was ordered is not to be believed."""
    if report.at_s is None or report.at_s < run.ordered_s:
        return draft.now_s
    return min(draft.now_s, report.at_s)


def say_why(draft: Draft, job: Job, run: Run, report: RunEnded) -> None:
    node, durable = run.node_id, draft.durable_step(job.id)
    match report.reason:
        case EndReason.NODE_LOST:
            gone = draft.state.nodes[node].phase in (NodePhase.SILENT, NodePhase.LEFT)
            why = Why.NODE_GIVEN_UP if gone else Why.NODE_BEGAN_ANEW
            draft.because(job.id, why, node=node, durable=durable)
        case EndReason.KILLED_BY_OWNER:
            draft.because(job.id, Why.OWNER_KILLED, node=node)
        case EndReason.LEASE_ENDED:
            draft.because(job.id, Why.LEASE_LOST, node=node)
        case EndReason.OUTPUT_LOST:
            detail = report.detail or "what it made could not be kept"
            draft.because(job.id, Why.OUTPUT_NOT_KEPT, node=node, detail=detail, durable=durable)
        case EndReason.SICK_GPU:
            gpus = ", ".join(map(str, run.grant.gpu_indices))
            detail = report.detail or "no detail given"
            draft.because(job.id, Why.GPU_SICK, node=node, gpus=gpus, detail=detail)
        case EndReason.REFUSED if report.why is Why.DUMP_REFUSED_THERE:
            detail = report.detail or "no detail given"
            draft.because(job.id, Why.DUMP_REFUSED_THERE, node=node, detail=detail)
        case EndReason.REFUSED:
            said = "no reason given" if report.why is None else report.why.value.replace("_", " ")
            refusal = report.detail or said
            draft.because(job.id, Why.RUN_REFUSED, node=node, refusal=refusal)
        case EndReason.START_FAILED:
            draft.because(job.id, Why.START_FAILED, node=node, detail=report.detail or "no detail given")
        case EndReason.SAVED if job.migration is None:
            _say_why_it_was_saved(draft, job, run, report)
        case EndReason.DEADLINE if job.migration is None and run.parked_s is not None:
            waited_s = draft.now_s - run.parked_s
            draft.because(job.id, Why.PARKED_TOO_LONG, node=node, patience_s=waited_s)
        case EndReason.DEADLINE if job.migration is None:
            draft.because(job.id, Why.OWNER_WANTS_NODE, node=node, notice_s=0.0)
        case EndReason.STOPPED if run.gave_place or _made_room(draft, job):
            pass  # it made room without a save, which was told when it was stopped
        case EndReason.GUEST_LOST | EndReason.UNKNOWN | EndReason.STOPPED:
            draft.because(job.id, Why.GUEST_VANISHED, node=node)
        case _:
            pass  # a planned move: its reason was given when it began


def _made_room(draft: Draft, job: Job) -> bool:
    migration = None if job.migration is None else draft.state.migrations[job.migration]
    return migration is not None and migration.cause is Cause.PREEMPTED


def _say_why_it_was_saved(draft: Draft, job: Job, run: Run, report: RunEnded) -> None:
    ago_s = draft.now_s - _ended_s(draft, run, report)
    match report.saved_for:
        case EndReason.LEASE_ENDED:
            draft.because(job.id, Why.SAVED_OUT_OF_TOUCH, node=run.node_id, ago_s=ago_s)
        case EndReason.DEADLINE if run.parked_s is not None:
            waited_s = draft.now_s - ago_s - run.parked_s
            draft.because(job.id, Why.PARKED_GOES_ON, node=run.node_id, waited_s=max(0.0, waited_s))
        case EndReason.DEADLINE:
            draft.because(job.id, Why.SAVED_FOR_OWNER, node=run.node_id, ago_s=ago_s)
        case _:
            draft.because(job.id, Why.ENDED_ITSELF)
