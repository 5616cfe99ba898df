"""The runs of an evaluation, as a list of small tasks that any number of processes can share."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from gpunion.domain.ids import CheckpointId, JobId
from gpunion.lab.calm.world import CalmWorld
from gpunion.lab.evaluation.contenders import ABLATION, ALL, IN_SWEEPS, MAIN, OFF_IN_TURN, Contender
from gpunion.lab.evaluation.costs import CostWatch, Figures
from gpunion.lab.reference.absences import read_owners
from gpunion.lab.reference.campus import PUBLISHED
from gpunion.lab.reference.departures import Manners
from gpunion.lab.reference.scenario import Campus, Setting, Traces, reference_campus
from gpunion.lab.reference.work import read_shapes
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.scenario.values import DAY_S, JobPlan, NodePlan, Scenario
from gpunion.sim.vault import ModelVault, Sealed
from gpunion.sim.world import World

NOTICES_S = (0.0, 30.0, 60.0, 120.0, 600.0)
UNANNOUNCED = (0.1, 0.25, 0.4, 0.6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    owners: Path
    jobs: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One contender on one campus. `part` is the table it belongs to."""

    part: str
    contender: str
    sources: Sources
    setting: Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    part: str
    contender: str
    seed: int
    unannounced_share: float
    notices_s: tuple[float, ...]
    departures: int  # of machines, whoever was on them
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Sweeps compare a contender with itself along a line, so they need fewer days than a table; they and the
    ablations are made with the first `few_seeds` of the seeds."""

    horizon_s: float
    sweep_horizon_s: float
    seeds: tuple[int, ...]
    few_seeds: int = 3
    ablations: bool = True
    sweeps: bool = True


FULL = Plan(horizon_s=4 * DAY_S, sweep_horizon_s=2 * DAY_S, seeds=(1, 2, 3, 4, 5, 6))
QUICK = Plan(horizon_s=DAY_S, sweep_horizon_s=DAY_S, seeds=(1, 2, 3), ablations=False, sweeps=False)


def tasks(plan: Plan, sources: Sources) -> list[Task]:
    """Those of one campus stand together, so that a process builds it once."""
    found: list[Task] = []
    for number, seed in enumerate(plan.seeds):
        setting = Setting(seed=seed, horizon_s=plan.horizon_s)
        found += _of("main", MAIN, setting, sources)
        if number >= plan.few_seeds:
            continue
        if plan.ablations:
            found += _of("ablation", ABLATION, setting, sources)
            found += _of("mechanism", OFF_IN_TURN, setting, sources)
            found += _of("published campus", IN_SWEEPS, replace(setting, kinds=PUBLISHED), sources)
        if plan.sweeps:
            setting = replace(setting, horizon_s=plan.sweep_horizon_s)
            for notice_s in NOTICES_S:
                manners = Manners(notices_s=(notice_s,))
                found += _of("notice", IN_SWEEPS, replace(setting, manners=manners), sources)
            for share in UNANNOUNCED:
                manners = Manners(unannounced_share=share)
                found += _of("unannounced", IN_SWEEPS, replace(setting, manners=manners), sources)
    return found


def run_task(task: Task) -> Result:
    campus = _campus(task.sources, task.setting)
    figures = run_contender(ALL[task.contender], campus)
    return Result(
        part=task.part,
        contender=task.contender,
        seed=task.setting.seed,
        unannounced_share=task.setting.manners.unannounced_share,
        notices_s=task.setting.manners.notices_s,
        departures=sum(d.at_s > 0.0 for of_node in campus.to_come.values() for d in of_node),
        figures=figures,
    )


def run_contender(contender: Contender, campus: Campus) -> Figures:
    vault = ReplicaVault if contender.redundant_share else ModelVault
    world = CalmWorld(_scenario(contender, campus.scenario), contender.policies(campus), vault=vault)
    if isinstance(world.vault, ReplicaVault):
        world.watch(Replicas(world, world.vault))
    costs = CostWatch(world, redundant_share=contender.redundant_share)
    with nothing_collected():
        world.run()
    return costs.figures()


@contextmanager
def nothing_collected() -> Iterator[None]:
    """A run makes millions of records and hardly a cycle: looking for cycles is an eighth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class ReplicaVault(ModelVault):
    """State that lives on in a neighbour's memory: whoever is driven out goes on where it stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas: dict[JobId, Sealed] = {}

    def latest(
        self, job_id: JobId, spoiled: tuple[CheckpointId, ...] = (), *, dumps: bool = True
    ) -> Sealed | None:
        return self.replicas.get(job_id) or super().latest(job_id, spoiled, dumps=dumps)


class Replicas(Watch):
    def __init__(self, world: World, vault: ReplicaVault) -> None:
        self._programs = {job.id: job.program for job in world.scenario.jobs}
        self._vault = vault

    def guest_ended(self, box: Box) -> None:
        program = self._programs[box.job_id]
        self._vault.replicas[box.job_id] = Sealed(
            checkpoint_id=CheckpointId(f"{box.run_id}-replica"),
            job_id=box.job_id,
            epoch=box.order.epoch,
            step=box.last_step,
            reached=box.last_step,
            size_bytes=program.state_bytes,
            added_bytes=0,
        )


def _scenario(contender: Contender, scenario: Scenario) -> Scenario:
    jobs = scenario.jobs if contender.incremental else tuple(map(_in_full, scenario.jobs))
    nodes = tuple(map(_with_a_port, scenario.nodes)) if contender.data_ports else scenario.nodes
    return replace(scenario, jobs=jobs, nodes=nodes)


def _with_a_port(node: NodePlan) -> NodePlan:
    return replace(node, facts=replace(node.facts, data_address=f"{node.id}:8475"))


def _in_full(job: JobPlan) -> JobPlan:
    return replace(job, program=replace(job.program, delta_bytes=job.program.state_bytes))


def _of(part: str, contenders: Iterable[Contender], setting: Setting, sources: Sources) -> Iterator[Task]:
    for contender in contenders:
        yield Task(part=part, contender=contender.name, sources=sources, setting=setting)


@lru_cache(maxsize=2)
def _campus(sources: Sources, setting: Setting) -> Campus:
    return reference_campus(_traces(sources), setting)


@lru_cache(maxsize=1)
def _traces(sources: Sources) -> Traces:
    return Traces(owners=read_owners(sources.owners), shapes=read_shapes(sources.jobs))
