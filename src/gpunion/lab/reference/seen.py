"""A small campus whose owners can be seen, or not, before they come: what are their signs worth?

The same owners do the same at the same times whatever is seen of them, so that two runs differ in nothing
else. The coordinator runs with the live policies and knows nothing at the beginning: what signs mean is
learned on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import JobSpec
from gpunion.domain.nodes.lending import SignTally
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.resources import GIB, MIB, Capacity, Gpu, Request
from gpunion.domain.timing import Timing
from gpunion.lab.calm.world import CalmWorld
from gpunion.policy.hazard.signs import SignBook, book_of_signs
from gpunion.policy.policies import LIVE
from gpunion.sim.measure import Measures
from gpunion.sim.scenario.values import (
    DAY_S,
    HOUR_S,
    JobPlan,
    NodePlan,
    OwnerPlan,
    Program,
    RandomOwner,
    Scenario,
    SignHabit,
)

MACHINES = 5
SPARE = 2  # so that who is driven out finds a place
# A save is dear enough that its interval matters: about twenty minutes of work at four hours between visits.
PROGRAM = Program(steps=10**7, step_s=1.0, capture_s=60.0, state_bytes=256 * MIB, delta_bytes=256 * MIB)
BETWEEN_VISITS_S, VISIT_S = 4 * HOUR_S, HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCost:
    lost_s: float
    stalled_s: float
    interruptions: int
    book: SignBook

    @property
    def tallies(self) -> tuple[SignTally, ...]:
        return self.book.records()


def seen_campus(seed: int, habit: SignHabit | None, *, days: float, announced_share: float = 0.0) -> Scenario:
    gpu = Gpu(index=0, model="any", memory_bytes=24 * GIB)
    capacity = Capacity(gpus=(gpu,), cpus=8.0, memory_bytes=32 * GIB, uplink_bps=1e9)
    nodes = tuple(
        NodePlan(
            id=NodeId(f"node-{number}"),
            facts=NodeFacts(lab=f"lab-{number}", capacity=capacity),
            downlink_bps=1e9,
        )
        for number in range(MACHINES)
    )
    request = Request(gpus=1, cpus=1.0, memory_bytes=GIB)
    spec = JobSpec(name="long", command=("train",), owner="guest", request=request)
    coming = RandomOwner(
        mean_shared_s=BETWEEN_VISITS_S,
        mean_away_s=VISIT_S,
        announced_share=announced_share,
        notices_s=(120.0,),
        paused_share=0.0,
    )
    return Scenario(
        name="seen",
        seed=seed,
        horizon_s=days * DAY_S,
        nodes=nodes,
        jobs=tuple(
            JobPlan(id=JobId(f"job-{number}"), spec=spec, program=PROGRAM)
            for number in range(MACHINES - SPARE)
        ),
        owners=tuple(OwnerPlan(node_id=node.id, random=coming, signs=habit) for node in nodes),
        timing=Timing(replan_s=1800.0),
    )


def cost_of(scenario: Scenario) -> SeenCost:
    world = CalmWorld(scenario, LIVE)
    measures = Measures(world)
    world.watch(measures)
    world.run()
    station = world.coordinator.station
    campus = None if station is None else station.engine.state.memories.campus
    jobs = measures.jobs.values()
    return SeenCost(
        lost_s=sum(job.steps_redone * PROGRAM.step_s for job in jobs),
        stalled_s=sum(job.stall_s for job in jobs),
        interruptions=sum(job.moves for job in jobs),
        book=SignBook() if campus is None else book_of_signs(campus.signs, campus.signs_as_of_s),
    )
