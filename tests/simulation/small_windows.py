"""Small campuses with jobs that run in windows, for whoever asks what becomes of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import JobSpec
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.resources import GIB, Capacity, Gpu, Request
from gpunion.policy.policies import LIVE, Policies
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.turns import TurnBounds
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.run import Outcome, run_scenario
from gpunion.sim.scenario.values import HOUR_S, JobPlan, NodePlan, OwnerPlan, Program, Scenario, TroublePlan
from gpunion.sim.world import Parts, World

SHORT_TURNS = replace(LIVE, windows=WindowPolicy(bounds=TurnBounds(least_s=60.0, most_s=120.0)))
OFF = replace(LIVE, windows=None)


def a_node(name: str = "alpha", *, gpus: int = 1) -> NodePlan:
    cards = tuple(Gpu(index=index, model="RTX 3090", memory_bytes=24 * GIB) for index in range(gpus))
    capacity = Capacity(gpus=cards, cpus=16, memory_bytes=64 * GIB, uplink_bps=1e9)
    return NodePlan(id=NodeId(name), facts=NodeFacts(lab="", capacity=capacity), downlink_bps=1e9)


def a_job(
    name: str, *, submit_s: float = 1.0, work_s: float = 600.0, gpus: int = 1, **asked: bool
) -> JobPlan:
    spec = JobSpec(
        name=name,
        command=("train",),
        owner=name,
        request=Request(gpus=1),
        expected_s=work_s,
        atomizable=asked.get("atomizable", True),
    )
    program = Program(
        steps=round(work_s),
        step_s=1.0,
        answers_saves=asked.get("saves", True),
        heeds_windows=asked.get("saves", True),
    )
    return JobPlan(id=JobId(name), spec=spec, program=program, submit_s=submit_s)


class Beginnings(Watch):
    def __init__(self, world: World) -> None:
        self.first_s: dict[str, float] = {}
        self.runs: Counter[str] = Counter()
        self.places: dict[str, set[str]] = {}
        self._world = world

    def guest_began(self, box: Box) -> None:
        self.first_s.setdefault(box.job_id, self._world.kernel.now_s)
        self.runs[box.job_id] += 1
        self.places.setdefault(box.job_id, set()).add(box.node_id)


def judged(
    *jobs: JobPlan,
    nodes: tuple[NodePlan, ...] = (),
    owners: tuple[OwnerPlan, ...] = (),
    policies: Policies = SHORT_TURNS,
    troubles: TroublePlan | None = None,
) -> tuple[Outcome, Beginnings]:
    """Whatever the checkers found."""
    seen: list[Beginnings] = []

    def prepare(world: World) -> None:
        seen.append(Beginnings(world))
        world.watch(seen[0])

    scenario = Scenario(
        name="windows", seed=1, horizon_s=4 * HOUR_S, nodes=nodes or (a_node(),), jobs=jobs, owners=owners
    )
    if troubles is not None:
        scenario = replace(scenario, troubles=troubles)
    return run_scenario(scenario, parts=Parts(policies=policies), prepare=prepare), seen[0]


def played(
    *jobs: JobPlan,
    nodes: tuple[NodePlan, ...] = (),
    owners: tuple[OwnerPlan, ...] = (),
    policies: Policies = SHORT_TURNS,
    troubles: TroublePlan | None = None,
    turn_s: tuple[float, float] | None = None,
) -> tuple[Outcome, Beginnings]:
    if turn_s is not None:
        policies = replace(LIVE, windows=WindowPolicy(bounds=TurnBounds(least_s=turn_s[0], most_s=turn_s[1])))
    outcome, seen = judged(*jobs, nodes=nodes, owners=owners, policies=policies, troubles=troubles)
    assert outcome.violations == ()
    return outcome, seen
