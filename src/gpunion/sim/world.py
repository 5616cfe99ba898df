"""Puts a campus together from a scenario and lets it run. The parts that think are the product's own."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import NodeId
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.policy.policies import LIVE, Policies
from gpunion.sim.coordinator import CoordinatorShell
from gpunion.sim.coordinator import MakeStation as MakeCoordinatorStation
from gpunion.sim.disks import AgentDisk, CampusDisk
from gpunion.sim.fault_points import Tally
from gpunion.sim.faults import Troubles
from gpunion.sim.kernel import Kernel
from gpunion.sim.lying.liars import Liar
from gpunion.sim.machine.agent import AgentShell
from gpunion.sim.machine.agent import MakeStation as MakeAgentStation
from gpunion.sim.machine.machine import Machine
from gpunion.sim.machine.owners import Owner
from gpunion.sim.machine.place import Place
from gpunion.sim.machine.runtime import GuestRuntime
from gpunion.sim.network.topology import Topology
from gpunion.sim.observer import Watch, Watchers
from gpunion.sim.program.clocks import Clock
from gpunion.sim.scenario.values import LiarPlan, NodePlan, Scenario
from gpunion.sim.streams import Streams
from gpunion.sim.transport import Transport, Weather
from gpunion.sim.vault import ModelVault

# How often the world looks whether everything is over. Not an event of anybody in it.
LOOK_S = 5.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a world is made of. Tests put a broken part in to see whether the checkers notice."""

    policies: Policies = LIVE
    coordinator_station: MakeCoordinatorStation = PureCoordinator
    agent_station: MakeAgentStation = PureAgent
    vault: type[ModelVault] = ModelVault
    campus_disk: type[CampusDisk] = CampusDisk
    transport: type[Transport] = Transport
    coordinator_shell: type[CoordinatorShell] = CoordinatorShell


class World:
    def __init__(self, scenario: Scenario, parts: Parts | None = None) -> None:
        parts = parts or Parts()
        self.scenario = scenario
        self.kernel = Kernel()
        self.streams = Streams(scenario.seed)
        self.tally = Tally()
        self.watchers = Watchers()
        self.vault = parts.vault()
        self.topology = Topology(self.kernel, scenario.nodes, scenario.network)
        self.topology.network.after_change = lambda: self.watchers.rates_changed()
        troubles = scenario.troubles
        self.weather = Weather(
            loss=troubles.loss,
            duplication=troubles.duplication,
            delay=troubles.delay,
            reorder=troubles.reorder,
        )
        self.transport = parts.transport(
            self.kernel,
            latency_s=scenario.network.latency_s,
            weather=self.weather,
            stream=self.streams.named("transport"),
            tally=self.tally,
            watch=self.watchers,
        )
        self.coordinator = parts.coordinator_shell(
            self.kernel,
            clock=Clock(rate=scenario.coordinator_rate),
            disk=parts.campus_disk(),
            transport=self.transport,
            policies=parts.policies,
            timing=scenario.timing,
            watch=self.watchers,
            station_type=parts.coordinator_station,
        )
        self.transport.coordinator = self.coordinator
        self.over = False  # every job ended and nothing is left to say
        self.machines: dict[NodeId, Machine] = {}
        for plan in scenario.nodes:
            self._build_machine(plan, parts)
        self.liars = {plan.node_id: self._build_liar(plan) for plan in scenario.liars}

    def watch(self, watch: Watch) -> None:
        self.watchers.add(watch)

    def run(self) -> None:
        scenario, kernel = self.scenario, self.kernel
        self.coordinator.start()
        for machine in self.machines.values():
            kernel.at(machine.plan.joins_s, machine.join)
        for job in (plan for plan in scenario.jobs if plan.handed_in):
            kernel.at(job.submit_s, lambda job=job: self.coordinator.submit(job))  # type: ignore[misc]
            if job.stop_s is not None:
                kernel.at(job.stop_s, lambda job=job: self.coordinator.stop(job))  # type: ignore[misc]
        quiet_s = scenario.horizon_s if scenario.troubles.heal_s is None else scenario.troubles.heal_s
        for owner in scenario.owners:
            stream = self.streams.named(f"owner/{owner.node_id}")
            habit = self.streams.named(f"signs/{owner.node_id}")
            Owner(kernel, self.machines[owner.node_id], owner, stream, habit).start(quiet_s)
        self.topology.start_background(self.streams.named("background"))
        self._troubles().start(scenario.horizon_s)
        for liar in self.liars.values():
            liar.start()
        self._look()
        kernel.run(scenario.horizon_s)

    def _look(self) -> None:
        self._stop_when_over()
        self.kernel.after(LOOK_S, self._look)

    def _stop_when_over(self) -> None:
        self.over = self._all_is_said_and_done()
        if self.over:
            self.kernel.stop()

    def _all_is_said_and_done(self) -> bool:
        heal_s = self.scenario.troubles.heal_s
        if heal_s is not None and self.kernel.now_s < heal_s:
            return False
        station = self.coordinator.station
        if station is None or len(self.coordinator.answered) < len(self.scenario.jobs):
            return False
        if not all(job.phase.over for job in station.engine.state.jobs.values()):
            return False
        if any(link.orders.waiting for id, link in station.links.items() if id not in self.liars):
            return False
        honest = [machine for machine in self.machines.values() if machine.id not in self.liars]
        stations = [machine.agent.station for machine in honest]
        return all(s is not None and not s.reports.waiting and not s.engine.state.guests for s in stations)

    def _build_machine(self, plan: NodePlan, parts: Parts) -> None:
        clock = Clock(rate=plan.clock_rate, offset_s=plan.clock_offset_s)
        runtime = GuestRuntime(self.kernel, clock, plan.id, plan.facts.capacity, self.watchers)
        place = Place(
            kernel=self.kernel,
            runtime=runtime,
            vault=self.vault,
            topology=self.topology,
            programs={job.id: job.program for job in self.scenario.jobs},
            watch=self.watchers,
            keeps=bool(plan.facts.data_address),
        )
        agent = AgentShell(
            self.kernel,
            plan,
            clock=clock,
            disk=AgentDisk(f"{plan.id}-1"),
            place=place,
            transport=self.transport,
            stream=self.streams.named(f"agent/{plan.id}"),
            timing=self.scenario.timing,
            station_type=parts.agent_station,
        )
        self.transport.agents[plan.id] = agent
        machine = Machine(self.kernel, plan, clock=clock, runtime=runtime, agent=agent, watch=self.watchers)
        self.machines[plan.id] = machine
        self.watchers.add(machine)

    def _build_liar(self, plan: LiarPlan) -> Liar:
        machine = self.machines[plan.node_id]
        return Liar(
            self.kernel,
            plan,
            self.streams.named(f"liar/{plan.node_id}"),
            agent=machine.agent,
            clock=machine.clock,
            station=lambda: self.coordinator.station,
            transport=self.transport,
            tally=self.tally,
        )

    def _troubles(self) -> Troubles:
        return Troubles(
            self.kernel,
            self.scenario.troubles,
            machines=self.machines,
            coordinator=self.coordinator,
            transport=self.transport,
            vault=self.vault,
            topology=self.topology,
            weather=self.weather,
            streams=self.streams,
            tally=self.tally,
        )
