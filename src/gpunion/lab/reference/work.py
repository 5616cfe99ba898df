"""The guests' work: sizes, lengths and hours of a trace of jobs, as much of it as the campus can lend."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import JobSpec
from gpunion.domain.resources import GIB, MIB, Request
from gpunion.lab.traces.formats import read_jobs
from gpunion.lab.traces.records import TraceJob
from gpunion.lab.traces.rows import TraceError
from gpunion.sim.scenario.values import DAY_S, WEEK_S, JobPlan, Program
from gpunion.sim.streams import Streams

# A job of a few minutes is run again where it fails; nobody checkpoints it.
LEAST_S = 600.0
# Longer ones are cut: what cannot end within the simulated days would only be counted half.
MOST_S = DAY_S
GPUS_MOST = 4
STEP_S = 1.0
FIRST_SUBMIT_S = 60.0

# What a program has to save: from a small vision model with its optimiser to a large fine-tune. About 13
# bytes a parameter (stas00/ml-engineering), so 25 million to a billion parameters.
STATE_GIB = (0.3, 12.0)
# An optimiser rewrites all it has at every step; adapters, frozen layers and data caches do not. Two in five
# jobs are of the second kind.
PARTIAL_SHARE = 0.4
PARTIAL_DELTA = (0.1, 0.3)
# Copying from the GPU and writing out stands still for a second and for 2 GB/s; coming up takes what Sia's
# and Parcae's authors measured for small models (15 to 50 s) and reading back at 1 GB/s.
CAPTURE_S, CAPTURE_BYTES_PER_S = 1.0, 2e9
BOOT_S, BOOT_BYTES_PER_S = (15.0, 50.0), 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One job of the trace: when in the week, how long, on how many GPUs."""

    in_week_s: float
    seconds: float
    gpus: int


def read_shapes(path: Path) -> tuple[Shape, ...]:
    shapes = tuple(_shape(job) for job in read_jobs(path) if _wanted(job))
    if not shapes:
        raise TraceError(f"{path}: no job of ten minutes or more on a GPU", next_step="give another file")
    return shapes


def jobs(
    shapes: Sequence[Shape], *, gpu_seconds: float, horizon_s: float, utc_offset_s: float, streams: Streams
) -> tuple[JobPlan, ...]:
    """Drawn from the shapes until their work is what was asked for, each at its own hour of the week."""
    draw = streams.named("work")
    plans: list[JobPlan] = []
    while gpu_seconds > 0.0:
        shape = shapes[draw.randrange(len(shapes))]
        submit_s = (shape.in_week_s - utc_offset_s) % WEEK_S + WEEK_S * draw.randrange(
            max(1, round(horizon_s / WEEK_S))
        )
        if horizon_s < WEEK_S:
            submit_s %= horizon_s
        plans.append(_plan(len(plans), shape, max(FIRST_SUBMIT_S, submit_s), draw))
        gpu_seconds -= shape.seconds * shape.gpus
    return tuple(plans)


def _wanted(job: TraceJob) -> bool:
    return 0 < job.gpus <= GPUS_MOST and job.duration_s is not None and job.duration_s >= LEAST_S


def _shape(job: TraceJob) -> Shape:
    assert job.duration_s is not None
    return Shape(in_week_s=job.submit_s % WEEK_S, seconds=min(job.duration_s, MOST_S), gpus=job.gpus)


def _plan(number: int, shape: Shape, submit_s: float, draw: random.Random) -> JobPlan:
    least, most = STATE_GIB
    state_bytes = int(least * GIB * (most / least) ** draw.random())
    partial = draw.random() < PARTIAL_SHARE
    delta = draw.uniform(*PARTIAL_DELTA) if partial else 1.0
    boot_s = draw.uniform(*BOOT_S) + state_bytes / BOOT_BYTES_PER_S
    program = Program(
        steps=max(1, round(shape.seconds / STEP_S)),
        step_s=STEP_S,
        capture_s=CAPTURE_S + state_bytes / CAPTURE_BYTES_PER_S,
        state_bytes=state_bytes,
        delta_bytes=max(MIB, int(state_bytes * delta)),
        boot_s=boot_s,
    )
    spec = JobSpec(
        name=f"job-{number}",
        command=("train",),
        owner=f"guest-{number % 40}",
        request=Request(gpus=shape.gpus, cpus=4.0 * shape.gpus, memory_bytes=16 * GIB * shape.gpus),
        expected_s=shape.seconds,
    )
    return JobPlan(id=JobId(f"job-{number:05d}"), spec=spec, program=program, submit_s=submit_s)
