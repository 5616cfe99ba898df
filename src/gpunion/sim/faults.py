"""Trouble, on purpose: crashes, cuts, slow and full disks, wrong clocks. Counted, seeded, and it ends."""

from __future__ import annotations

import random
from collections.abc import Callable

from gpunion.domain.ids import CheckpointId, NodeId
from gpunion.sim.coordinator import CoordinatorShell
from gpunion.sim.fault_points import CrashPoint, Moment, Tally
from gpunion.sim.kernel import Kernel
from gpunion.sim.machine.machine import Machine
from gpunion.sim.network.topology import Topology
from gpunion.sim.scenario.values import HOUR_S, ScriptedTrouble, TroublePlan
from gpunion.sim.streams import Streams
from gpunion.sim.transport import Transport, Weather
from gpunion.sim.vault import ModelVault, Ruin

# How long each trouble lasts, drawn in between.
COORDINATOR_DOWN_S = (0.5, 25.0)
AGENT_DOWN_S = (0.5, 30.0)
NODE_DOWN_S = (5.0, 60.0)
CUT_S = (2.0, 60.0)
SLOW_DISK_S = (20.0, 120.0)
FULL_DISK_S = (5.0, 60.0)
CLOCK_JUMP_S = 6 * HOUR_S
MOST_EFFECTS_BEFORE_CRASH = 4


class Troubles:
    def __init__(
        self,
        kernel: Kernel,
        plan: TroublePlan,
        *,
        machines: dict[NodeId, Machine],
        coordinator: CoordinatorShell,
        transport: Transport,
        vault: ModelVault,
        topology: Topology,
        weather: Weather,
        streams: Streams,
        tally: Tally,
    ) -> None:
        self._kernel = kernel
        self._plan = plan
        self._machines = machines
        self._coordinator = coordinator
        self._transport = transport
        self._vault = vault
        self._topology = topology
        self._weather = weather
        self._streams = streams
        self._tally = tally
        self._cuts: dict[NodeId, int] = {}
        self._full = 0
        self._down_for_s: dict[str, float] = {}

    def start(self, until_s: float) -> None:
        heal_s = until_s if self._plan.heal_s is None else self._plan.heal_s
        self._coordinator.on_crash = self._coordinator_died
        for machine in self._machines.values():
            machine.agent.on_crash = lambda machine=machine: self._agent_died(machine)  # type: ignore[misc]
            if machine.clock.rate != 1.0:
                self._tally.count("clock_drift")
        for kind, per_hour in self._rates().items():
            self._schedule(kind, per_hour, heal_s)
        for scripted in self._plan.scripted:
            self._kernel.at(scripted.at_s, lambda trouble=scripted: self._as_written(trouble))  # type: ignore[misc]
        self._vault.spoil = self._spoil
        self._kernel.at(heal_s, self._heal)

    def _spoil(self, checkpoint_id: CheckpointId) -> Ruin | None:
        """Drawn by its name: which saves are of no use does not depend on when they were sealed."""
        if self._plan.spoiled_share <= 0.0:
            return None
        stream = self._streams.named(f"trouble/spoiled_save/{checkpoint_id}")
        if stream.random() >= self._plan.spoiled_share:
            return None
        self._tally.count("spoiled_save")
        return stream.choice((Ruin.GARBAGE, Ruin.GARBAGE, Ruin.BLOCKS))

    def _rates(self) -> dict[str, float]:
        plan = self._plan
        return {
            "coordinator_crash": plan.coordinator_crashes_per_h,
            "agent_crash": plan.agent_crashes_per_h,
            "node_crash": plan.node_crashes_per_h,
            "connection_break": plan.connection_breaks_per_h,
            "partition": plan.partitions_per_h,
            "slow_disk": plan.slow_disks_per_h,
            "full_disk": plan.full_disks_per_h,
        }

    def _schedule(self, kind: str, per_hour: float, heal_s: float) -> None:
        if per_hour <= 0.0:
            return
        stream = self._streams.named(f"trouble/{kind}")
        at_s = stream.expovariate(per_hour / HOUR_S)
        while at_s < heal_s:
            self._kernel.at(at_s, lambda: self._happen(kind, stream))
            at_s += stream.expovariate(per_hour / HOUR_S)

    def _heal(self) -> None:
        """No new trouble; what is down comes back by itself within its drawn time."""
        self._weather.bad = False
        self._vault.spoil = lambda _: None
        self._coordinator.crash_point = None
        for machine in self._machines.values():
            machine.agent.crash_point = None

    def _as_written(self, trouble: ScriptedTrouble) -> None:
        stream = self._streams.named(f"scripted/{trouble.kind}/{trouble.at_s}")
        machine = None if trouble.node_id is None else self._machines[trouble.node_id]
        self._happen(trouble.kind, stream, machine, trouble.for_s or None)

    def _happen(
        self, kind: str, stream: random.Random, machine: Machine | None = None, for_s: float | None = None
    ) -> None:
        scripted = for_s is not None or machine is not None
        if machine is None:
            machine = self._machines[stream.choice(sorted(self._machines))]
        match kind:
            case "coordinator_crash":
                self._crash_coordinator(stream, for_s)
            case "agent_crash":
                self._crash_agent(machine, stream, for_s)
            case "node_crash":
                self._crash_node(machine, stream, for_s)
            case "connection_break":
                self._tally.count(kind)
                self._transport.break_connection(machine.id)
            case "partition":
                more = [] if scripted else stream.sample(sorted(self._machines), len(self._machines) // 3)
                data_too = scripted or stream.random() < 0.5
                self._cut(sorted({machine.id, *more}), for_s or stream.uniform(*CUT_S), data_too)
            case "slow_disk":
                self._slow(machine, stream.uniform(3.0, 20.0), for_s or stream.uniform(*SLOW_DISK_S))
            case "full_disk":
                self._fill(for_s or stream.uniform(*FULL_DISK_S))
            case _:
                raise ValueError(f"no trouble is called {kind!r}")

    # --- crashes ---------------------------------------------------------------------------------

    def _crash_coordinator(self, stream: random.Random, for_s: float | None) -> None:
        self._down_for_s["coordinator"] = for_s or stream.uniform(*COORDINATOR_DOWN_S)
        point = None if for_s else _draw_point(stream)
        if not self._coordinator.listening():
            return
        if point is None:
            self._coordinator.crash()
        else:
            self._coordinator.crash_point = point

    def _coordinator_died(self) -> None:
        self._tally.count("coordinator_crash")
        self._kernel.after(self._down_for_s.get("coordinator", 1.0), self._coordinator_back)

    def _coordinator_back(self) -> None:
        if not self._coordinator.listening():
            self._coordinator.start()

    def _crash_agent(self, machine: Machine, stream: random.Random, for_s: float | None) -> None:
        self._down_for_s[machine.id] = for_s or stream.uniform(*AGENT_DOWN_S)
        point = None if for_s else _draw_point(stream)
        if not machine.agent.up:
            return
        if point is None:
            machine.agent.crash()
        else:
            machine.agent.crash_point = point

    def _agent_died(self, machine: Machine) -> None:
        if machine.on:
            self._tally.count("agent_crash")
            self._kernel.after(self._down_for_s.get(machine.id, 1.0), lambda: _agent_back(machine))

    def _crash_node(self, machine: Machine, stream: random.Random, for_s: float | None) -> None:
        down_s = for_s or stream.uniform(*NODE_DOWN_S)
        jump_s = stream.uniform(-CLOCK_JUMP_S, CLOCK_JUMP_S)
        wiped = stream.random() < self._plan.wiped_share
        if not machine.on:
            return
        self._tally.count("node_crash")
        machine.power_off()

        def back() -> None:
            if self._plan.clock_jumps:
                self._tally.count("clock_jump")
            if wiped:
                self._tally.count("wiped_disk")
            machine.power_on(jump_s if self._plan.clock_jumps else 0.0, wiped=wiped)

        self._kernel.after(down_s, back)

    # --- the rest --------------------------------------------------------------------------------

    def _cut(self, nodes: list[NodeId], for_s: float, data_too: bool) -> None:
        """From the coordinator; `data_too`: from the vault as well."""
        for node_id in nodes:
            self._tally.count("partition")
            self._cuts[node_id] = self._cuts.get(node_id, 0) + 1
            self._transport.cut.add(node_id)
            if data_too:
                self._topology.network.cut(self._topology.node_links(node_id))
        self._kernel.after(for_s, lambda: self._mend(nodes))

    def _mend(self, nodes: list[NodeId]) -> None:
        for node_id in nodes:
            self._cuts[node_id] -= 1
            if self._cuts[node_id] == 0:
                self._transport.cut.discard(node_id)
                self._topology.network.mend(self._topology.node_links(node_id))

    def _slow(self, machine: Machine, slowness: float, for_s: float) -> None:
        self._tally.count("slow_disk")
        machine.runtime.slowness = slowness
        self._kernel.after(for_s, lambda: setattr(machine.runtime, "slowness", 1.0))

    def _fill(self, for_s: float) -> None:
        self._tally.count("full_disk")
        self._full += 1
        self._vault.full = True
        self._kernel.after(for_s, self._cleared)

    def _cleared(self) -> None:
        self._full -= 1
        self._vault.full = self._full > 0


def _agent_back(machine: Machine) -> None:
    if machine.on and not machine.agent.up:
        machine.agent.start()


def _draw_point(stream: random.Random) -> CrashPoint | None:
    """A third at any moment, the rest right around a commit: that is where the hard cases are."""
    fate: Callable[[], CrashPoint | None] = stream.choice(
        (
            lambda: None,
            lambda: CrashPoint(Moment.BEFORE_COMMIT),
            lambda: CrashPoint(Moment.AFTER_COMMIT, stream.randint(0, MOST_EFFECTS_BEFORE_CRASH)),
        )
    )
    return fate()
