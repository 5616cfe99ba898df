"""Which jobs `GET /jobs` is asked for, and in what order."""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.coordinator.api.views import HELD, shown_phase
from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import JobPhase
from gpunion.engine.coordinator.state import CampusState
from gpunion.wire.v1.job_requests import JobsQuery

_WAITING = frozenset(phase.value for phase in JobPhase if phase.waiting)


def listed_jobs(state: CampusState, query: JobsQuery) -> list[JobId]:
    """All of them, whatever a page holds. Ids sort by age."""
    found = _looked_through(state, query)
    if query.phase:
        wanted = set(query.phase)
        found = (job_id for job_id in found if _phase(state, job_id) in wanted)
    return sorted(found, reverse=query.order == "newest")


def _looked_through(state: CampusState, query: JobsQuery) -> Iterable[JobId]:
    """Jobs are never forgotten, so years of them are not gone through where an index has those there are."""
    if query.node:
        runs = (run_id for node in set(query.node) for run_id in state.living.get(NodeId(node), ()))
        return {state.runs[run_id].job_id for run_id in runs}
    if query.phase and _WAITING.issuperset(query.phase):
        return state.waiting
    return {*state.jobs, *state.held}


def _phase(state: CampusState, job_id: JobId) -> str:
    held = state.held.get(job_id)
    if held is None:
        return shown_phase(state, state.jobs[job_id]).value
    return JobPhase.CANCELLED.value if held.given_up else HELD
