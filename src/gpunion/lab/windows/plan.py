"""The runs of the comparison, as small tasks that any number of processes can share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpunion.lab.calm.world import CalmWorld
from gpunion.lab.evaluation.costs import Figures
from gpunion.lab.evaluation.sweep import Sources, nothing_collected
from gpunion.lab.reference.scenario import Campus
from gpunion.lab.windows.campuses import KINDS, Place, campus, with_lengths_off
from gpunion.lab.windows.contenders import ALL, OFF, OURS, Contender
from gpunion.lab.windows.figures import WaitWatch
from gpunion.lab.windows.hard_ends import HardEnds
from gpunion.lab.windows.lies import LIES, OF_MEMORY, told_wrong
from gpunion.sim.scenario.values import DAY_S

SEEDS = (1, 2, 3, 4, 5, 6)
LOADS = (1.0, 1.5, 2.0, 3.0)
SHARES = (0.0, 0.25, 0.5, 1.0)
FORETOLD = (0.0, 0.5, 1.0)
BEGINS = (0.5, 4.0)
NOISES = (0.3,)
# The campus that decides: twice as much work as there is time, and every job may run in windows.
DECIDES, DECIDING = "deciding", Place()
LYING = "lies"
# Where ours is only compared with today's, two days have to do.
SHORT = replace(DECIDING, horizon_s=2 * DAY_S)
MOST_RUNS = 500
# Others than those whose figures decide are made with the first so many of the seeds, and all that is beside
# what decides with fewer.
SOME_SEEDS, FEW_SEEDS = 4, 3
DECISIVE = (OFF.name, OURS.name, "shortest")
OF_LENGTH = tuple(lie for lie in LIES if lie not in OF_MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`part`: the table it belongs to."""

    part: str
    contender: str
    place: Place
    sources: Sources
    lie: str = ""  # what one in five tells of their jobs; empty: the truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    part: str
    contender: str
    place: Place
    figures: Figures
    lie: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seeds: tuple[int, ...] = SEEDS
    full: bool = False  # every contender at every load, share and campus
    quick: bool = False  # the campus that decides, and nothing else
    horizon_s: float = DECIDING.horizon_s


QUICK = Plan(seeds=(1, 2), quick=True, horizon_s=DAY_S)


def tasks(plan: Plan, sources: Sources) -> list[Task]:
    """Each campus and contender once; those of one campus stand together, so that it is built once."""
    found: dict[tuple[str, Place], Task] = {}
    for part, place, contenders in _parts(plan):
        for name in contenders:
            for seed in plan.seeds if plan.full else plan.seeds[: _seeds(part, name)]:
                here = replace(place, seed=seed, horizon_s=min(plan.horizon_s, place.horizon_s))
                task = Task(part=part, contender=name, place=here, sources=sources)
                found.setdefault((name, here), task)
    return sorted(found.values(), key=lambda task: (task.place.seed, task.place.kind, task.place.load))


def lies(plan: Plan, sources: Sources) -> list[Task]:
    """Beside the others: what each lie gains whoever tells it."""
    if plan.quick:
        return []
    return [
        Task(part=LYING, contender=name, place=place, sources=sources, lie=lie)
        for seed in plan.seeds[: None if plan.full else FEW_SEEDS]
        for kind, told in (("reference", OF_LENGTH), ("slices", OF_MEMORY))
        for lie in ("", *told)
        for place in [replace(SHORT, kind=kind, seed=seed)]
        for name in (OFF.name, OURS.name)
    ]


def _seeds(part: str, contender: str) -> int | None:
    """None: all there are."""
    if part != DECIDES:
        return FEW_SEEDS
    return None if contender in DECISIVE else SOME_SEEDS


def _parts(plan: Plan) -> Iterator[tuple[str, Place, tuple[str, ...]]]:
    everybody = tuple(ALL)
    two = everybody if plan.full else (OFF.name, OURS.name)
    yield DECIDES, DECIDING, everybody
    if plan.quick:
        return
    for load in LOADS:
        for share in SHARES if plan.full or load == DECIDING.load else (1.0,):
            if (load, share) != (DECIDING.load, DECIDING.share):
                yield "load and share", replace(DECIDING, load=load, share=share), two
    for kind in KINDS[1:]:
        for amount in FORETOLD if kind == "foretold" else (1.0,):
            yield kind, replace(SHORT, kind=kind, foretold=amount), _of_kind(kind, two)
    for begin in BEGINS:
        yield "coming up", replace(SHORT, begin=begin), two
    for noise in NOISES:
        yield "noise", replace(SHORT, noise=noise), two


def _of_kind(kind: str, two: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*two, "no-memory"))) if kind == "slices" else two


def run_task(task: Task) -> Result:
    here = campus(task.place, task.sources)
    figures = run_contender(ALL[task.contender], here, task.lie)
    return Result(part=task.part, contender=task.contender, place=task.place, figures=figures, lie=task.lie)


def run_contender(contender: Contender, here: Campus, lie: str = "") -> Figures:
    scenario = told_wrong(with_lengths_off(here.scenario, contender.lengths_off), lie)
    world = CalmWorld(scenario, contender.policies(here))
    waits, ends = WaitWatch(world), HardEnds(world)
    with nothing_collected():
        world.run()
    return waits.figures() | ends.figures()
