"""Four campuses from the same traces: as it is, with ends foretold, with gangs, and with sliced cards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.lab.evaluation.sweep import Sources
from gpunion.lab.reference.absences import read_owners
from gpunion.lab.reference.campus import REFERENCE, MachineKind
from gpunion.lab.reference.departures import Departure, Manner
from gpunion.lab.reference.scenario import Campus, Setting, Traces, reference_campus
from gpunion.lab.reference.work import read_shapes
from gpunion.lab.traces.formats import read_jobs
from gpunion.sim.scenario.values import (
    DAY_S,
    HOUR_S,
    JobPlan,
    MemoryPhase,
    NodePlan,
    OwnerAct,
    OwnerPlan,
    Scenario,
    in_gang,
)
from gpunion.sim.streams import Streams

HORIZON_S = 4 * DAY_S
KINDS = ("reference", "foretold", "gangs", "slices")
FORETOLD_S = 4 * HOUR_S
FIRST_WORD_S = 5.0
# Of the GPU-hours that are asked for on the campus with gangs, these are.
GANG_SHARE, GANG_SIZES = 0.1, (4, 8)
# What a job says that it needs of a GPU's memory, over what it does.
DECLARED = (1.0, 2.0)
CARD_GIB, CARD_SPEED = 80, 1.81
# An A100 of 80 GB, as NVIDIA cuts it: part of its memory and of its cores.
CUTS = (("3g.40gb", 40, 3 / 7), ("2g.20gb", 20, 2 / 7), ("1g.10gb", 10, 1 / 7), ("1g.10gb", 10, 1 / 7))
SLICED_MACHINES, WHOLE_MACHINES = 12, 4
SLICED = (
    MachineKind(
        count=SLICED_MACHINES, gpus=len(CUTS), model="A100", vram_gib=CARD_GIB, speed=0.5, edge_gbps=10
    ),
    MachineKind(
        count=WHOLE_MACHINES, gpus=1, model="A100", vram_gib=CARD_GIB, speed=CARD_SPEED, edge_gbps=10
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One campus: everything but who decides. `share`: of the jobs that may run in windows."""

    kind: str = "reference"
    seed: int = 1
    load: float = 2.0
    share: float = 1.0
    foretold: float = 1.0  # of the announced departures, on the campus of that name
    noise: float = 0.05  # of the programs' steps
    begin: float = 1.0  # times what coming up usually takes
    horizon_s: float = HORIZON_S


def campus(place: Place, sources: Sources) -> Campus:
    """Built once; only the part of the jobs that may run in windows is taken anew."""
    whole = _whole(replace(place, share=1.0), sources)
    jobs = tuple(_may(job, place.share) for job in whole.scenario.jobs)
    return replace(whole, scenario=replace(whole.scenario, jobs=jobs))


def with_lengths_off(scenario: Scenario, factor: float) -> Scenario:
    """What is said of their lengths; what they really take stays."""
    if factor == 1.0:
        return scenario
    draw = Streams(scenario.seed).named("windows/lengths")
    jobs = tuple(
        replace(
            job, spec=replace(job.spec, expected_s=_off(job.spec.expected_s, factor, draw.uniform(-1, 1)))
        )
        for job in scenario.jobs
    )
    return replace(scenario, jobs=jobs)


def _off(length_s: float | None, factor: float, by: float) -> float | None:
    return None if length_s is None else length_s * factor**by


def _may(job: JobPlan, share: float) -> JobPlan:
    """The same jobs at every share that is no smaller."""
    if not job.spec.atomizable:
        return job
    drawn = Streams(0).named(f"windows/share/{job.id}").random()
    return replace(job, spec=replace(job.spec, atomizable=drawn < share))


@lru_cache(maxsize=2)
def _whole(place: Place, sources: Sources) -> Campus:
    kinds = SLICED if place.kind == "slices" else REFERENCE
    setting = Setting(seed=place.seed, horizon_s=place.horizon_s, kinds=kinds, load=place.load)
    found = reference_campus(_traces(sources), setting)
    draw = Streams(place.seed)
    scenario = found.scenario
    if place.kind == "foretold":
        scenario = replace(scenario, owners=tuple(_foretold(found, place.foretold, draw)))
    if place.kind == "slices":
        scenario = _sliced(scenario, _shares(sources.jobs.parent), draw)
    jobs = [_in_windows(job, place) for job in scenario.jobs]
    if place.kind == "gangs":
        jobs = list(_with_gangs(jobs, draw))
    return replace(found, scenario=replace(scenario, name=place.kind, jobs=tuple(jobs)))


def _in_windows(job: JobPlan, place: Place) -> JobPlan:
    program = replace(job.program, noise=place.noise, boot_s=place.begin * job.program.boot_s)
    return replace(job, spec=replace(job.spec, atomizable=True), program=program)


def _foretold(campus: Campus, share: float, streams: Streams) -> Iterator[OwnerPlan]:
    """As an owner's calendar does: four hours ahead, and withdrawn when it has come true."""
    draw = streams.named("windows/foretold")
    for plan in campus.scenario.owners:
        coming = campus.to_come.get(plan.node_id, ())
        told = [one for one in coming if one.manner is Manner.NOTICE and draw.random() < share]
        acts = [*plan.acts]
        back_s = 0.0
        for departure in coming:
            if departure in told and departure.at_s > FIRST_WORD_S + back_s:
                acts += _told_ahead(departure, back_s)
            back_s = departure.back_s
        yield replace(plan, acts=tuple(sorted(acts, key=lambda act: act.at_s)))


def _told_ahead(departure: Departure, lent_since_s: float) -> tuple[OwnerAct, OwnerAct]:
    ends_s = departure.at_s + departure.notice_s
    told_s = max(FIRST_WORD_S + lent_since_s, ends_s - FORETOLD_S)
    return (
        OwnerAct(at_s=told_s, do="foretell", notice_s=ends_s - told_s),
        OwnerAct(at_s=ends_s + 1.0, do="foretell"),
    )


def _with_gangs(jobs: Sequence[JobPlan], streams: Streams) -> Iterator[JobPlan]:
    """Some of the jobs on one GPU become gangs of four or eight, until a tenth of all work is theirs."""
    draw = streams.named("windows/gangs")
    left = GANG_SHARE * sum((job.spec.expected_s or 0.0) * job.spec.request.gpus for job in jobs)
    for job in jobs:
        size = draw.choice(GANG_SIZES)
        work = size * (job.spec.expected_s or 0.0)
        if job.spec.request.gpus > 1 or work > left or draw.random() > 2 * GANG_SHARE:
            yield job
            continue
        left -= work
        yield from in_gang(replace(job, spec=replace(job.spec, atomizable=False)), size)


def _sliced(scenario: Scenario, shares: Sequence[float], streams: Streams) -> Scenario:
    draw = streams.named("windows/memory")
    nodes = tuple(_cut(node) for node in scenario.nodes)
    jobs = []
    for job in scenario.jobs:
        peak_bytes = int(max(0.02, draw.choice(shares)) * CARD_GIB * GIB)
        declared_bytes = min(CARD_GIB * GIB, int(peak_bytes * draw.uniform(*DECLARED)))
        request = replace(job.spec.request, gpus=1, vram_bytes=declared_bytes, cpus=2.0, memory_bytes=4 * GIB)
        phases = (
            MemoryPhase(from_share=0.0, gpu_bytes=int(0.8 * peak_bytes)),
            MemoryPhase(from_share=0.02, gpu_bytes=peak_bytes),
        )
        program = replace(job.program, memory=phases)
        jobs.append(replace(job, spec=replace(job.spec, request=request), program=program))
    return replace(scenario, nodes=nodes, jobs=tuple(jobs))


def _cut(node: NodePlan) -> NodePlan:
    facts, found = node.facts, node.facts.capacity
    if len(found.gpus) == 1:
        return node
    gpus = tuple(
        Gpu(
            index=index,
            model=f"A100 MIG {profile}",
            memory_bytes=gib * GIB,
            speed=CARD_SPEED * part,
            card="card-0",
            profile=profile,
        )
        for index, (profile, gib, part) in enumerate(CUTS)
    )
    return replace(node, facts=_with_gpus(facts, replace(found, gpus=gpus)))


def _with_gpus(facts: NodeFacts, capacity: Capacity) -> NodeFacts:
    return replace(facts, capacity=capacity)


@lru_cache(maxsize=1)
def _shares(folder: Path) -> tuple[float, ...]:
    """What parts of a GPU jobs of a trace need; of traces that do not say, all of it."""
    found: list[float] = []
    for path in sorted(folder.glob("jobs_*.csv")):
        found += [job.gpu_share for job in read_jobs(path) if job.gpus == 1 and 0 < job.gpu_share < 1]
    return tuple(found) or (1.0,)


@lru_cache(maxsize=1)
def _traces(sources: Sources) -> Traces:
    return Traces(owners=read_owners(sources.owners), shapes=read_shapes(sources.jobs))
