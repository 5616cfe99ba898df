"""One job, its order, and the machine it runs on."""

from __future__ import annotations

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.commit import SavedAgent
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.resources import GIB, Capacity, Gpu, Grant
from gpunion.domain.timing import Timing
from gpunion.engine.agent.pure_agent import PureAgent

RUN, JOB = RunId("job-1-e1"), JobId("job-1")


def an_order(**changes: object) -> StartRun:
    fields: dict[str, object] = {
        "run_id": RUN,
        "job_id": JOB,
        "epoch": 1,
        "command": ("python", "train.py"),
        "environment": (("SEED", "1"),),
        "bundle": None,
        "grant": Grant(gpu_indices=(0,), cpus=1.0, memory_bytes=GIB),
        **changes,
    }
    return StartRun(**fields)  # type: ignore[arg-type]


def some_facts(**terms: object) -> NodeFacts:
    gpus = (Gpu(index=0, model="declared", memory_bytes=8 * GIB),)
    capacity = Capacity(gpus=gpus, cpus=4.0, memory_bytes=8 * GIB, uplink_bps=1e9)
    return NodeFacts(lab="alpha", capacity=capacity, terms=Terms(**terms))  # type: ignore[arg-type]


def a_station(saved: SavedAgent | None = None) -> PureAgent:
    return PureAgent(
        node_id=NodeId("a1"),
        facts=some_facts(),
        saved=saved or SavedAgent(incarnation="first"),
        timing=Timing(),
    )


def a_checkpoint(number: int) -> CheckpointId:
    return CheckpointId(f"{RUN}-c{number}")
