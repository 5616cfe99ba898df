"""When a run is asked to save next: its own timer, or that of the first of its gang."""

from __future__ import annotations

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.protocol.timers import SaveDue
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.policy.gangs.agreeing import interval_s


def set_checkpoint_timer(draft: Draft, run: Run) -> None:
    job = draft.job_of(run)
    if job.spec.seat is None:
        draft.set_timer(SaveDue(run_id=run.id), draft.now_s + _interval_s(draft, run))
        return
    together = gangs.running_together(draft, job)
    if together and not gangs.saving(draft, together):  # the leader's timer is everybody's
        draft.set_timer(SaveDue(run_id=together[0].id), draft.now_s + _common_interval_s(draft, together))


def save_as_often_as_it_pays_now(draft: Draft, run: Run) -> None:
    """Sooner than planned, where it would be planned so at this moment."""
    job = draft.job_of(run)
    if job.spec.seat is None:
        bring_forward(draft, run, saved_s(draft, run) + _interval_s(draft, run))
    elif together := gangs.running_together(draft, job):
        bring_forward(draft, together[0], saved_s(draft, run) + _common_interval_s(draft, together))


def bring_forward(draft: Draft, run: Run, due_s: float) -> None:
    """Never more often than its user wants, and not before now; one that is being saved needs no other."""
    timer = SaveDue(run_id=run.id)
    planned_s = draft.timer_at(timer) if draft.timer_set(timer) else None
    if run.phase is not RunPhase.RUNNING or planned_s is None:
        return
    least_s = saved_s(draft, run) + draft.job_of(run).spec.checkpoint.min_interval_s
    due_s = max(draft.now_s, due_s, least_s)
    if due_s < planned_s:
        draft.set_timer(timer, due_s)


def saved_s(draft: Draft, run: Run) -> float:
    """When it had last nothing to lose."""
    began_s = draft.now_s if run.started_s is None else run.started_s
    durable = draft.job_of(run).durable
    return began_s if durable is None else max(began_s, durable.at_s)


def _common_interval_s(draft: Draft, together: list[Run]) -> float:
    apart = [(one.node_id, _interval_s(draft, one)) for one in together]
    return max(interval_s(apart), draft.job_of(together[0]).spec.checkpoint.min_interval_s)


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
