"""How long one planning pass takes, by the number of nodes and of waiting jobs.

A full campus with a queue behind it; one run ends, the pass finds the place that came free and gives it to
the first who fits. Medians over passes; `first` is the pass of a
coordinator that just started and knows nothing yet. The second table is the growth with what changed.

    python bench/planner/run.py
"""

from __future__ import annotations

import statistics
import time

from gpunion.domain.events import NodeReported
from gpunion.domain.ids import JobId, NodeId, run_id
from gpunion.domain.job import Job, JobPhase, JobSpec
from gpunion.domain.node import Node, NodeFacts, NodePhase
from gpunion.domain.reports import RunEnded
from gpunion.domain.resources import GIB, Capacity, Gpu, Grant, Request
from gpunion.domain.run import EndReason, Run, RunPhase
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator import CoordinatorEngine
from gpunion.engine.state import CampusState
from gpunion.engine.timers import Timers
from gpunion.policy.policies import BASELINE

SIZES = ((100, 1_000), (300, 3_000), (1_000, 1_000), (1_000, 3_000), (1_000, 10_000))
CHANGES = (1, 2, 4, 8, 16)
PASSES = 15
WANTED_MS = 200.0
MODELS = ("RTX 3090", "RTX 4090", "RTX A6000", "A100")


def main() -> None:
    print(f"{'nodes':>6} {'waiting':>8} {'median ms':>10} {'worst ms':>9} {'first ms':>9}")
    for nodes, waiting in SIZES:
        engine = full_campus(nodes, waiting)
        first_ms = one_pass_ms(engine, 0, 1)
        times_ms = [one_pass_ms(engine, number, 1) for number in range(1, PASSES + 1)]
        median_ms = statistics.median(times_ms)
        print(f"{nodes:>6} {waiting:>8} {median_ms:>10.1f} {max(times_ms):>9.1f} {first_ms:>9.1f}")
    verdict = "reached" if median_ms <= WANTED_MS else "NOT reached"
    print(f"wanted at most {WANTED_MS:.0f} ms for the last: {verdict}")
    print(f"\n{'ends':>6} {'ms in all':>10} {'ms each':>9}   (1,000 nodes, 10,000 waiting)")
    number = PASSES + 1
    for changes in CHANGES:
        total_ms = one_pass_ms(engine, number, changes)
        number += changes
        print(f"{changes:>6} {total_ms:>10.1f} {total_ms / changes:>9.1f}")


def full_campus(nodes: int, waiting: int) -> CoordinatorEngine:
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
            spec=spec(number),
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
        )
        state.apply((node, job, run))
    for number in range(waiting):
        state.apply(
            (
                Job(
                    id=JobId(f"job-{number:05d}"),
                    spec=spec(number),
                    phase=JobPhase.PENDING,
                    submitted_s=float(number),
                    waiting_since_s=float(number),
                ),
            )
        )
    return CoordinatorEngine(state=state, policies=BASELINE, timing=Timing(), timers=Timers())


def spec(number: int) -> JobSpec:
    """Forty different wishes: what is remembered of one says nothing of another."""
    models = (MODELS[number % len(MODELS)],) if number % 5 == 0 else ()
    request = Request(gpus=1, models=models, cpus=1.0 + number % 4, memory_bytes=(1 + number % 8) * GIB)
    return JobSpec(name="bench", command=("train",), owner=f"guest-{number % 50}", request=request)


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
