"""How long one planning pass takes, by the number of nodes and of waiting jobs.

A full campus with a queue behind it; one run ends, the pass finds the place that came free and gives it to
the first who fits. Medians over passes. The second table is the growth with what changed. In the third every
other job, running or waiting, may run in windows, and all turns are over: each pass clears as many places as
one pass does, and gives the one that came free away as well.

    python bench/planner/run.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId, run_id
from gpunion.domain.jobs.job import Job, JobPhase, JobSpec
from gpunion.domain.jobs.run import EndReason, Run, RunPhase
from gpunion.domain.jobs.window import Subjob, WindowEnd
from gpunion.domain.nodes.node import Node, NodeFacts, NodePhase
from gpunion.domain.protocol.events import NodeReported
from gpunion.domain.protocol.reports import RunEnded
from gpunion.domain.resources import GIB, Capacity, Gpu, Grant, Request
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator.engine import CoordinatorEngine
from gpunion.engine.coordinator.state import CampusState
from gpunion.engine.timers import Timers
from gpunion.policy.policies import BASELINE
from gpunion.policy.windows.policy import WindowPolicy

SIZES = ((100, 1_000), (300, 3_000), (1_000, 1_000), (1_000, 3_000), (1_000, 10_000))
CHANGES = (1, 2, 4, 8, 16)
PASSES = 15
WANTED_MS = 200.0
OPEN = Subjob(ends_s=None, hard=False, end=WindowEnd.OPEN)
MODELS = ("RTX 3090", "RTX 4090", "RTX A6000", "A100")


def main() -> None:
    engine = table("nobody in windows", SIZES, windows=False)
    print(f"\n{'ends':>6} {'ms in all':>10} {'ms each':>9}   (1,000 nodes, 10,000 waiting)")
    number = PASSES
    for changes in CHANGES:
        total_ms = one_pass_ms(engine, number, changes)
        number += changes
        print(f"{changes:>6} {total_ms:>10.1f} {total_ms / changes:>9.1f}")
    print()
    table("every other job in windows", SIZES[-1:], windows=True)


def table(title: str, sizes: Sequence[tuple[int, int]], *, windows: bool) -> CoordinatorEngine:
    """Returns the last engine, as it is after its passes."""
    print(title)
    print(f"{'nodes':>6} {'waiting':>8} {'median ms':>10} {'worst ms':>9}")
    for nodes, waiting in sizes:
        engine = full_campus(nodes, waiting, windows=windows)
        times_ms = [one_pass_ms(engine, number, 1) for number in range(PASSES)]
        median_ms = statistics.median(times_ms)
        print(f"{nodes:>6} {waiting:>8} {median_ms:>10.1f} {max(times_ms):>9.1f}")
    verdict = "reached" if median_ms <= WANTED_MS else "NOT reached"
    print(f"wanted at most {WANTED_MS:.0f} ms for the last: {verdict}")
    if windows:
        turns = sum(run.turn_since_s is not None for run in engine.state.runs.values())
        leave = sum(
            run.subjob is not None and run.subjob.hard is False and run.subjob.ends_s is not None
            for run in engine.state.runs.values()
        )
        print(f"tenants cleared: {turns} stay, {leave} make way")
    return engine


def full_campus(nodes: int, waiting: int, *, windows: bool = False) -> CoordinatorEngine:
    """Written down as records: a run on every node, and a queue."""
    state = CampusState()
    for number in range(nodes):
        gpu = Gpu(index=0, model=MODELS[number % len(MODELS)], memory_bytes=24 * GIB)
        capacity = Capacity(gpus=(gpu,), cpus=16.0, memory_bytes=64 * GIB, uplink_bps=1e9)
        facts = NodeFacts(lab=f"lab-{number % 20}", capacity=capacity)
        node_id, job_id = NodeId(f"node-{number:04d}"), JobId(f"running-{number:04d}")
        node = Node(
            id=node_id,
            facts=facts,
            phase=NodePhase.SHARING,
            incarnation="1",
            joined_s=0.0,
            phase_since_s=0.0,
        )
        job = Job(
            id=job_id,
            spec=spec(number, windows=windows),
            phase=JobPhase.RUNNING,
            submitted_s=0.0,
            waiting_since_s=0.0,
            epoch=1,
            home=node_id,
        )
        run = Run(
            id=run_id(job_id, 1),
            job_id=job_id,
            node_id=node_id,
            epoch=1,
            phase=RunPhase.RUNNING,
            grant=Grant(gpu_indices=(0,), cpus=1.0, memory_bytes=GIB),
            ordered_s=0.0,
            started_s=0.0,
            subjob=OPEN if job.spec.atomizable else None,
        )
        state.apply((node, job, run))
    for number in range(waiting):
        state.apply(
            (
                Job(
                    id=JobId(f"job-{number:05d}"),
                    spec=spec(number, windows=windows),
                    phase=JobPhase.PENDING,
                    submitted_s=float(number),
                    waiting_since_s=float(number),
                ),
            )
        )
    policies = replace(BASELINE, windows=WindowPolicy()) if windows else BASELINE
    return CoordinatorEngine(state=state, policies=policies, timing=Timing(), timers=Timers())


def spec(number: int, *, windows: bool) -> JobSpec:
    """Forty different requests, so that few are answered by what another was told."""
    models = (MODELS[number % len(MODELS)],) if number % 5 == 0 else ()
    request = Request(gpus=1, models=models, cpus=1.0 + number % 4, memory_bytes=(1 + number % 8) * GIB)
    return JobSpec(
        name="bench",
        command=("train",),
        owner=f"guest-{number % 50}",
        request=request,
        atomizable=windows and number % 2 == 1,
    )


def one_pass_ms(engine: CoordinatorEngine, number: int, changes: int) -> float:
    """So many runs end, one after the other; each end is one event and one pass."""
    total_s = 0.0
    for offset in range(changes):
        run = engine.state.runs[run_id(JobId(f"running-{number + offset:04d}"), 1)]
        ended = RunEnded(
            run_id=run.id,
            job_id=run.job_id,
            epoch=run.epoch,
            reason=EndReason.FINISHED,
            last_step=1,
            exit_code=0,
        )
        total_s += step(engine, NodeReported(node_id=run.node_id, report=ended), 1e6 + number)
    return 1e3 * total_s


def step(engine: CoordinatorEngine, event: NodeReported, now_s: float) -> float:
    began_s = time.perf_counter()
    decision = engine.handle(now_s, event)
    took_s = time.perf_counter() - began_s
    engine.apply(decision)
    engine.timers.apply(decision.effects)
    return took_s


if __name__ == "__main__":
    main()
