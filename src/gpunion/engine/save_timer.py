"""When a run is asked to save next: its own timer, or that of the first of its gang."""

from __future__ import annotations

from gpunion.domain.job import Job
from gpunion.domain.run import Run, RunPhase
from gpunion.engine import gangs
from gpunion.engine.draft import Draft
from gpunion.policy.gangs.agreeing import interval_s


def set_checkpoint_timer(draft: Draft, run: Run) -> None:
    job = draft.job_of(run)
    if job.spec.seat is None:
        draft.set_timer(f"checkpoint:{run.id}", draft.now_s + _interval_s(draft, run))
        return
    together = gangs.running_together(draft, job)
    if together and not gangs.saving(draft, together):  # the leader's timer is everybody's
        apart = [(one.node_id, _interval_s(draft, one)) for one in together]
        due_s = max(interval_s(apart), job.spec.checkpoint.min_interval_s)
        draft.set_timer(f"checkpoint:{together[0].id}", draft.now_s + due_s)


def _interval_s(draft: Draft, run: Run) -> float:
    job = draft.job_of(run)
    node = draft.state.nodes[run.node_id]
    return draft.policies.checkpointing.interval_s(job, node, draft.now_s, _company(draft, run))


def _company(draft: Draft, run: Run) -> list[Job]:
    """The jobs that share its uplink."""
    living = draft.state.living.get(run.node_id, set())
    if living <= {run.id}:
        return []  # most have a machine to themselves
    others = [draft.state.runs[run_id] for run_id in sorted(living) if run_id != run.id]
    return [draft.job_of(other) for other in others if other.phase is RunPhase.RUNNING]
