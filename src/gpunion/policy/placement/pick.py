"""Which of the nodes that would do is taken, and with which GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.reasons.reason import Verdict
from gpunion.domain.resources import Gpu, Grant
from gpunion.domain.ties import tie_break
from gpunion.policy.placement.filters import refusal, suitable
from gpunion.text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    node_id: NodeId
    grant: Grant
    because: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlaced:
    verdicts: tuple[Verdict, ...]


class Scoring(Protocol):
    def score(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...], now_s: float) -> float:
        """Higher is better."""
        ...

    def because(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...]) -> str: ...


# One GPU left over weighs as much as a tenth of the reference card's speed: fast first, tidy second.
LEFTOVER_WEIGHT = 0.1


class FastThenTight:
    """The fastest GPUs; among those, the node with the least left over."""

    def score(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...], now_s: float) -> float:
        leftover = len(view.free_gpus) - job.spec.request.gpus
        return _speed(gpus) - LEFTOVER_WEIGHT * leftover

    def because(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...]) -> str:
        leftover = len(view.free_gpus) - job.spec.request.gpus
        model = gpus[0].model if gpus else "no GPU needed"
        return (
            f"best of the free ones ({model}, speed {_speed(gpus):g}, {counted(leftover, 'GPU')} left over)"
        )


class TightThenFast:
    """The node with the least left over; among those, the fastest GPUs. Small jobs fill up what is broken
    into already, and whole machines stay free for jobs that need several GPUs."""

    def score(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...], now_s: float) -> float:
        leftover = len(view.free_gpus) - job.spec.request.gpus
        return LEFTOVER_WEIGHT * _speed(gpus) - leftover

    def because(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...]) -> str:
        leftover = len(view.free_gpus) - job.spec.request.gpus
        model = gpus[0].model if gpus else "no GPU needed"
        return f"the fullest of those with room ({model}, {counted(leftover, 'GPU')} left over)"


def place(
    job: Job, views: Iterable[NodeView], now_s: float, scoring: Scoring, prefer: NodeId | None = None
) -> Placed | NotPlaced:
    """`prefer` wins where it would do: a place was reserved there."""
    verdicts: list[Verdict] = []
    best: tuple[tuple[bool, float, int, int], NodeView, tuple[Gpu, ...]] | None = None
    for view in views:
        refused = refusal(job, view, now_s)
        if refused is not None:
            verdicts.append(Verdict(node=view.node.id, refusal=refused))
            continue
        gpus = choose_gpus(job, view)
        score = scoring.score(job, view, gpus, now_s)
        verdicts.append(Verdict(node=view.node.id, score=score))
        tie = tie_break("placement", job.id, job.epoch, view.node.id)
        rank = (view.node.id == prefer, score, _liking(job, view), tie)
        if best is None or rank > best[0]:
            best = (rank, view, gpus)
    if best is None:
        return NotPlaced(verdicts=tuple(verdicts))
    (preferred, _, _, _), view, gpus = best
    why = "a place was kept for it there" if preferred else scoring.because(job, view, gpus)
    return Placed(node_id=view.node.id, grant=grant(job, gpus), because=why, verdicts=tuple(verdicts))


def _liking(job: Job, view: NodeView) -> int:
    """Between machines as good as each other: first where the owner would rather have this guest than
    another, last where they would rather have others."""
    terms = view.node.facts.terms
    if terms.prefers(job.spec.lab, job.spec.owner):
        return 1
    return -1 if terms.prefer_labs or terms.prefer_people else 0


def choose_gpus(job: Job, view: NodeView) -> tuple[Gpu, ...]:
    """The fastest that do, but no bigger than needed: memory is what the next job may lack. Of slices the
    smallest that does, and any of them before a whole card."""
    able = suitable(view.free_gpus, job.request)
    ranked = sorted(able, key=_first_taken)
    return tuple(sorted(ranked[: job.spec.request.gpus], key=lambda gpu: gpu.index))


def _first_taken(gpu: Gpu) -> tuple[bool, float, float, int]:
    if gpu.card:
        return (False, gpu.memory_bytes, -gpu.speed, gpu.index)
    return (True, -gpu.speed, gpu.memory_bytes, gpu.index)


def grant(job: Job, gpus: tuple[Gpu, ...]) -> Grant:
    request = job.spec.request
    indices = tuple(gpu.index for gpu in gpus)
    return Grant(
        gpu_indices=indices,
        cpus=request.cpus,
        memory_bytes=request.memory_bytes,
        network=request.network,
    )


def _speed(gpus: tuple[Gpu, ...]) -> float:
    return min((gpu.speed for gpu in gpus), default=1.0)
