"""Machines of the reference campus (54 in three buildings) and of GPUnion's published one (11 servers).

Speeds are relative to an RTX 3090: the geometric mean over ten training benchmarks of Lambda's published
half-precision throughputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.sim.scenario.values import NetworkPlan, NodePlan

BUILDINGS = 3
GBPS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    count: int
    gpus: int
    model: str
    vram_gib: int
    speed: float
    edge_gbps: float


# Mostly single-card workstations on gigabit, a few servers on ten: the shape of the published fleets.
REFERENCE = (
    MachineKind(count=20, gpus=1, model="RTX 3090", vram_gib=24, speed=1.0, edge_gbps=1),
    MachineKind(count=10, gpus=2, model="RTX 3090", vram_gib=24, speed=1.0, edge_gbps=1),
    MachineKind(count=10, gpus=1, model="RTX 4090", vram_gib=24, speed=1.62, edge_gbps=1),
    MachineKind(count=6, gpus=4, model="RTX 4090", vram_gib=24, speed=1.62, edge_gbps=10),
    MachineKind(count=4, gpus=2, model="RTX A6000", vram_gib=48, speed=1.16, edge_gbps=10),
    MachineKind(count=2, gpus=4, model="RTX A6000", vram_gib=48, speed=1.16, edge_gbps=10),
    MachineKind(count=2, gpus=8, model="A100", vram_gib=40, speed=1.81, edge_gbps=10),
)
PUBLISHED = (
    MachineKind(count=8, gpus=1, model="RTX 3090", vram_gib=24, speed=1.0, edge_gbps=1),
    MachineKind(count=1, gpus=8, model="RTX 4090", vram_gib=24, speed=1.62, edge_gbps=10),
    MachineKind(count=1, gpus=2, model="A100", vram_gib=40, speed=1.81, edge_gbps=10),
    MachineKind(count=1, gpus=4, model="RTX A6000", vram_gib=48, speed=1.16, edge_gbps=10),
)
# The vault hangs on the core; others use a fifth of the links, in the wave of a day.
NETWORK = NetworkPlan(
    core_bps=40 * GBPS,
    building_bps=10 * GBPS,
    vault_bps=40 * GBPS,
    latency_s=0.002,
    background_mean=0.2,
    background_every_s=3600.0,
)


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine before anybody owns it."""

    name: str
    kind: MachineKind


def machines(kinds: tuple[MachineKind, ...] = REFERENCE) -> tuple[Machine, ...]:
    flat = [kind for kind in kinds for _ in range(kind.count)]
    return tuple(Machine(f"node-{number:02d}", kind) for number, kind in enumerate(flat, start=1))


def node_plan(machine: Machine, lab: str, building: int, notice_s: float) -> NodePlan:
    kind = machine.kind
    gpus = tuple(
        Gpu(index=index, model=kind.model, memory_bytes=kind.vram_gib * GIB, speed=kind.speed)
        for index in range(kind.gpus)
    )
    facts = NodeFacts(
        lab=lab,
        building=f"building-{building % BUILDINGS}",
        capacity=Capacity(
            gpus=gpus,
            cpus=16.0 * kind.gpus,
            memory_bytes=64 * GIB * kind.gpus,
            uplink_bps=kind.edge_gbps * GBPS,
        ),
        terms=Terms(notice_s=notice_s),
    )
    return NodePlan(id=NodeId(machine.name), facts=facts, downlink_bps=kind.edge_gbps * GBPS)
