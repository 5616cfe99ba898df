"""Orders and places that others use, as answers of the same engine."""

from __future__ import annotations

from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.resources import Gpu
from gpunion.domain.ties import tie_break
from gpunion.policy.ordering import PriorityThenAge, SortKey
from gpunion.text import counted


class FirstCome(PriorityThenAge):
    """Nobody passes the first who does not fit; who was interrupted by an owner goes on before."""

    strict = True


class ShortestFirst(PriorityThenAge):
    """By the length that is said of a job, the interrupted before those who never ran."""

    def key(self, job: Job) -> SortKey:
        interrupted = 0 if job.phase is JobPhase.MIGRATING else 1
        length_s = job.spec.expected_s or 0.0
        return (-int(job.spec.priority), interrupted, length_s, tie_break("ordering", job.id))


class LeastLeft:
    """Best fit: where the least memory on GPUs is left over, whatever their speed."""

    def score(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...], now_s: float) -> float:
        left = sum(gpu.memory_bytes for gpu in view.free_gpus) - sum(gpu.memory_bytes for gpu in gpus)
        return -left / 1024**3

    def because(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...]) -> str:
        return f"least left over ({counted(len(view.free_gpus) - len(gpus), 'GPU')})"
