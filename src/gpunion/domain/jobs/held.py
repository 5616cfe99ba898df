"""A job that is held: the coordinator could not read all that it had kept of it."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """It gets no new run, and what is kept of it is left as it is. Its last run may still be alive: the job
    keeps what that was granted until its machine says that it has ended."""

    id: JobId
    why: str
    job: Job | None = None  # where that much can be read
    runs: tuple[Run, ...] = ()  # those that may be alive
    nodes: tuple[NodeId, ...] = ()  # where it may have a run of which nobody knows what it was granted
    given_up: bool = False  # by its user: nothing of it is to start again, ever

    @property
    def name(self) -> str:
        return self.id if self.job is None else self.job.spec.name

    def may_run_on(self, node_id: str) -> bool:
        return node_id in self.nodes or any(run.node_id == node_id for run in self.runs)
