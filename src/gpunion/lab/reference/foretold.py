"""A small campus whose machines are lent until a known hour, with more to save than fits their notice.

Three machines of four GPUs on 1 Gb/s, six jobs. Each machine is its owner's for two hours a day; its terms
foretell it four hours ahead, and the notice is a minute.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import JobSpec
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.resources import GIB, Capacity, Gpu, Request
from gpunion.domain.timing import Timing
from gpunion.lab.calm.world import CalmWorld
from gpunion.policy.policies import LIVE
from gpunion.sim.measure import Measures
from gpunion.sim.scenario.values import (
    DAY_S,
    HOUR_S,
    JobPlan,
    NodePlan,
    OwnerAct,
    OwnerPlan,
    Program,
    Scenario,
)

MACHINES, GPUS, JOBS = 3, 4, 6
NOTICE_S, AHEAD_S, VISIT_S = 60.0, 4 * HOUR_S, 2 * HOUR_S
# So that no seed has its hours where another has.
SHIFT_S = 1117.0


def foretold_campus(seed: int, *, days: int, state_gib: int, capture_s: float) -> Scenario:
    gpus = tuple(Gpu(index=index, model="any", memory_bytes=24 * GIB) for index in range(GPUS))
    capacity = Capacity(gpus=gpus, cpus=8.0, memory_bytes=64 * GIB, uplink_bps=1e9)
    nodes = tuple(
        NodePlan(
            id=NodeId(f"node-{number}"),
            facts=NodeFacts(lab=f"lab-{number}", capacity=capacity),
            downlink_bps=1e9,
        )
        for number in range(MACHINES)
    )
    size_bytes = state_gib * GIB
    program = Program(
        steps=10**7, step_s=1.0, capture_s=capture_s, state_bytes=size_bytes, delta_bytes=size_bytes
    )
    request = Request(gpus=1, cpus=1.0, memory_bytes=GIB)
    spec = JobSpec(name="long", command=("train",), owner="guest", request=request)
    hours = [(7 + 3 * number) * HOUR_S + seed * SHIFT_S for number in range(MACHINES)]
    return Scenario(
        name="foretold",
        seed=seed,
        horizon_s=days * DAY_S,
        nodes=nodes,
        jobs=tuple(JobPlan(id=JobId(f"job-{n}"), spec=spec, program=program) for n in range(JOBS)),
        owners=tuple(
            OwnerPlan(node_id=node.id, acts=_acts(at_s, days))
            for node, at_s in zip(nodes, hours, strict=True)
        ),
        timing=Timing(replan_s=1800.0),
    )


def lost_and_stalled_s(scenario: Scenario, *, evacuates: bool) -> tuple[float, float]:
    """Under the live policies, saving ahead of a foretold end or not."""
    world = CalmWorld(scenario, replace(LIVE, evacuates=evacuates))
    measures = Measures(world)
    world.watch(measures)
    world.run()
    jobs = measures.jobs.values()
    return float(sum(job.steps_redone for job in jobs)), sum(job.stall_s for job in jobs)


def _acts(at_s: float, days: int) -> tuple[OwnerAct, ...]:
    acts = []
    for ends_s in (day * DAY_S + at_s for day in range(days)):
        acts += [
            OwnerAct(at_s=ends_s - AHEAD_S, do="foretell", notice_s=AHEAD_S),
            OwnerAct(at_s=ends_s - NOTICE_S, do="reclaim", notice_s=NOTICE_S),
            OwnerAct(at_s=ends_s + 1.0, do="foretell"),
            OwnerAct(at_s=ends_s + VISIT_S, do="resume"),
        ]
    return tuple(acts)
