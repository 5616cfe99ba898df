"""One simulated campus, from the traces, the owners' manners and a seed; the same for every policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpunion.domain.timing import Timing
from gpunion.lab.reference import campus, work
from gpunion.lab.reference.absences import OwnerTrace, own
from gpunion.lab.reference.departures import (
    Departure,
    Manners,
    departures,
    last_part,
    learned,
    owner_plans,
    power_cuts,
)
from gpunion.policy.hazard.book import HazardBook
from gpunion.sim.scenario.values import NetworkPlan, Scenario, TroublePlan
from gpunion.sim.streams import Streams

# Work asked for, over what the owners lend, both at the reference card's speed. The cards are a third faster
# than that on average: the campus is busy and queues stay short.
LOAD = 1.0
# Everything that makes room is an event and planned for at once; the look now and then is for the rest.
REPLAN_S = 120.0
# On a wire that loses nothing only what was never acknowledged at all is worth sending again.
RESEND_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    owners: OwnerTrace
    shapes: tuple[work.Shape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a run is told besides its policies."""

    seed: int
    horizon_s: float
    manners: Manners = field(default_factory=Manners)
    kinds: tuple[campus.MachineKind, ...] = campus.REFERENCE
    load: float = LOAD
    network: NetworkPlan = campus.NETWORK


@dataclass(frozen=True, slots=True, kw_only=True)
class Campus:
    scenario: Scenario
    book: HazardBook  # what was learned before the first simulated second
    past: Mapping[str, tuple[Departure, ...]]  # departures before it
    to_come: Mapping[str, tuple[Departure, ...]]
    repeated: bool


def reference_campus(traces: Traces, setting: Setting) -> Campus:
    streams = Streams(setting.seed)
    machines = campus.machines(setting.kinds)
    ownership = own(machines, traces.owners, streams)
    window = last_part(traces.owners, setting.horizon_s)
    coming = departures(ownership, window, setting.manners, streams)
    to_come = {
        name: tuple(d for d in of_node if d.back_s > 0.0 and d.at_s < setting.horizon_s)
        for name, of_node in coming.items()
    }
    labs = sorted(set(ownership.lab_of.values()))
    nodes = tuple(
        campus.node_plan(
            machine,
            ownership.lab_of[machine.name],
            labs.index(ownership.lab_of[machine.name]),
            setting.manners.notices_s[0],
        )
        for machine in machines
    )
    lent_gpu_s = sum(
        machine.kind.gpus * _lent_s(to_come.get(machine.name, ()), setting.horizon_s) for machine in machines
    )
    jobs = work.jobs(
        traces.shapes,
        gpu_seconds=setting.load * lent_gpu_s,
        horizon_s=setting.horizon_s,
        utc_offset_s=window.utc_offset_s,
        streams=streams,
    )
    scenario = Scenario(
        name="reference",
        seed=setting.seed,
        horizon_s=setting.horizon_s,
        nodes=nodes,
        jobs=jobs,
        owners=owner_plans(to_come),
        troubles=TroublePlan(scripted=power_cuts(to_come)),
        network=setting.network,
        timing=Timing(replan_s=REPLAN_S, resend_s=RESEND_S),
    )
    return Campus(
        scenario=scenario,
        book=learned(coming, traces.owners.from_s - window.starts_s, window.utc_offset_s),
        past={name: tuple(d for d in of_node if d.at_s < 0.0) for name, of_node in coming.items()},
        to_come=to_come,
        repeated=window.repeated,
    )


def _lent_s(coming: tuple[Departure, ...], horizon_s: float) -> float:
    away_s = sum(min(horizon_s, d.back_s) - max(0.0, d.at_s) for d in coming)
    return horizon_s - away_s
