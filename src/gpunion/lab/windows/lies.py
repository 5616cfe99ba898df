"""What is told of one job in five, and is not true: what does it gain whoever tells it?

Every lie is compared with the same campus on which the same people tell the truth, with windows and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import JobSpec
from gpunion.sim.scenario.values import JobPlan, Scenario

# Every fifth user lies about all of their jobs.
ONE_IN = 5
# How much shorter a job is said to be, how much less or more memory it is said to need, how many times as far
# it is said to be, and into how many pieces of the same work one is handed in.
SHORTER, LESS, MORE, FURTHER, PIECES = 4.0, 0.5, 2.0, 4.0, 4
PIECE_MARK = "+"


def is_liar(owner: str) -> bool:
    return int(owner.rpartition("-")[2]) % ONE_IN == 0


def told_wrong(scenario: Scenario, lie: str) -> Scenario:
    """The truth where there is no lie of that name."""
    tell = LIES.get(lie)
    if tell is None:
        return scenario
    jobs: list[JobPlan] = []
    for job in scenario.jobs:
        jobs += tell(job) if is_liar(job.spec.owner) and job.spec.seat is None else (job,)
    return replace(scenario, jobs=tuple(jobs))


def handed_in_as(job_id: JobId) -> str:
    """The job that a piece of it belongs to, for who counts how long it took in all."""
    return job_id.partition(PIECE_MARK)[0]


def _shorter(job: JobPlan) -> Iterator[JobPlan]:
    length_s = job.spec.expected_s
    yield _with(job, expected_s=None if length_s is None else length_s / SHORTER)


def _deadline(job: JobPlan) -> Iterator[JobPlan]:
    """To be done in little more than it takes, though nobody waits for it."""
    yield _with(job, finish_within_s=1.2 * (job.spec.expected_s or 0.0) + 600.0)


def _less_memory(job: JobPlan) -> Iterator[JobPlan]:
    yield _with_memory(job, LESS)


def _more_memory(job: JobPlan) -> Iterator[JobPlan]:
    yield _with_memory(job, MORE)


def _further(job: JobPlan) -> Iterator[JobPlan]:
    yield replace(job, program=replace(job.program, ahead=FURTHER))


def _many_small(job: JobPlan) -> Iterator[JobPlan]:
    steps = max(1, job.program.steps // PIECES)
    length_s = job.spec.expected_s
    for number in range(PIECES):
        piece = _with(job, expected_s=None if length_s is None else length_s / PIECES)
        program = replace(job.program, steps=steps)
        yield replace(piece, id=JobId(f"{job.id}{PIECE_MARK}{number}"), program=program)


def _with(job: JobPlan, **said: object) -> JobPlan:
    spec: JobSpec = replace(job.spec, **said)  # type: ignore[arg-type]
    return replace(job, spec=spec)


def _with_memory(job: JobPlan, factor: float) -> JobPlan:
    peak_bytes = max((phase.gpu_bytes for phase in job.program.memory), default=0)
    said = int(min(factor * peak_bytes, 80 * 1024**3))
    return _with(job, request=replace(job.spec.request, vram_bytes=said)) if peak_bytes else job


LIES: Mapping[str, Callable[[JobPlan], Iterator[JobPlan]]] = {
    "shorter": _shorter,
    "deadline": _deadline,
    "less memory": _less_memory,
    "more memory": _more_memory,
    "further": _further,
    "many small": _many_small,
}
OF_MEMORY = ("less memory", "more memory")
WORDS = {
    "shorter": "says a quarter of how long it takes",
    "deadline": "names a deadline that nobody needs",
    "less memory": "asks for half the memory it needs",
    "more memory": "asks for twice the memory it needs",
    "further": "says that it is four times as far as it is",
    "many small": "hands in four small jobs in place of one",
}
