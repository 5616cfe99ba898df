"""A campus in fair weather: nothing is lost on the way, so frames that would change nothing are not sent.

Two months of 54 machines are 140 million heartbeats at two seconds each. Between happenings every one of them
says "still here". Here what arrived is acknowledged where it arrived, a lease stands until its machine goes
dark, and the coordinator counts silence from that moment: the same engine, the same decisions, at the same
times to within one heartbeat. Only owners and power cuts may trouble such a world; anything else needs the
frames that are left out, and is refused. So nobody reads a disk but a machine that lost its power.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.events import CoordinatorEvent, JobSubmitted, LeaseRenewed
from gpunion.domain.protocol.frames import CoordinatorFrame, OrderFrame
from gpunion.engine.agent.pure_agent import Posted, PureAgent
from gpunion.engine.coordinator.engine import CoordinatorEngine
from gpunion.engine.coordinator.heartbeats import LeaseBook
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.lab.calm.shells import (
    STANDING_S,
    CalmAgentDisk,
    CalmAgentShell,
    CalmCoordinatorShell,
    CalmTransport,
)
from gpunion.policy.policies import Policies
from gpunion.sim.disks import CampusDisk
from gpunion.sim.machine.machine import OWNERS_WORDS, Machine
from gpunion.sim.machine.place import Place
from gpunion.sim.machine.runtime import GuestRuntime
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.program.clocks import Clock
from gpunion.sim.scenario.values import HOUR_S, NodePlan, Scenario, TroublePlan
from gpunion.sim.vault import ModelVault
from gpunion.sim.world import Parts, World

LOOK_S = HOUR_S


class Storm(ValueError):
    """The scenario has weather that needs every frame."""


class CalmLeases(LeaseBook):
    """Counts only from the moment a node is known to the world to have gone dark."""

    def heard(self, node_id: NodeId, now_s: float) -> None:
        self.forget(node_id)

    def went_dark(self, node_id: NodeId, now_s: float) -> None:
        super().heard(node_id, now_s)


class RightClock(Clock):
    """Says the true time. Nobody has it jump in fair weather."""

    def local(self, true_s: float) -> float:
        return true_s

    def true(self, local_s: float) -> float:
        return local_s


class CalmEngine(CoordinatorEngine):
    """Here every decision is committed, so it need not be taken back first and made again."""

    def handle(self, now_s: float, event: CoordinatorEvent, *, plan: bool = True) -> Decision:
        draft = self._draft(now_s)
        self._decide(draft, event, plan)
        return draft.decided()

    def apply(self, decision: Decision) -> None:
        pass


class CalmCoordinatorStation(PureCoordinator):
    def __init__(self, **known: Any) -> None:
        super().__init__(**known)
        silence_s = known["policies"].suspicion.silent_after_s(known["timing"])
        self.leases: CalmLeases = CalmLeases(silence_s)
        self.engine = CalmEngine(
            state=self.engine.state, policies=known["policies"], timing=known["timing"], timers=self.timers
        )


class CalmAgentStation(PureAgent):
    def frame_arrived(self, now_s: float, frame: CoordinatorFrame) -> list[Posted]:
        found = super().frame_arrived(now_s, frame)
        if type(frame) is OrderFrame:
            return found  # no lease comes with it
        posted: list[Posted] = []
        for event, seq in found:
            if not isinstance(event, LeaseRenewed):
                posted.append((event, seq))
            elif self.engine.state.lease_until_s is None:
                posted.append((LeaseRenewed(until_s=STANDING_S), seq))
        return posted


class CalmCampusDisk(CampusDisk):
    """A coordinator that never dies reads nothing back but which jobs it has answered for."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs: set[JobId] = set()

    def commit(self, commit: Commit) -> None:
        if type(commit.event) is JobSubmitted:
            self._jobs.add(commit.event.job_id)

    def acknowledged(self, node_id: NodeId, waiting: Container[int]) -> None:
        pass

    def has_job(self, job_id: JobId) -> bool:
        return job_id in self._jobs


class LiveProgress(dict[RunId, tuple[int, float]]):
    """What heartbeats would have told: how far each living guest is."""

    def __init__(self) -> None:
        self.boxes: dict[RunId, Box] = {}

    def get(self, key: RunId, default: Any = None) -> Any:
        box = self.boxes.get(key)
        if box is None or box.process is None:
            return super().get(key, default)
        return box.process.told


class CalmWorld(World, Watch):
    def __init__(
        self, scenario: Scenario, policies: Policies, *, vault: type[ModelVault] = ModelVault
    ) -> None:
        if _stormy(scenario.troubles):
            raise Storm(f"{scenario.name}: only owners and power cuts may trouble a calm world")
        self._programs = {job.id: job.program for job in scenario.jobs}
        self._progress = LiveProgress()
        parts = Parts(
            policies=policies,
            coordinator_station=CalmCoordinatorStation,
            agent_station=CalmAgentStation,
            vault=vault,
            campus_disk=CalmCampusDisk,
            transport=CalmTransport,
            coordinator_shell=CalmCoordinatorShell,
        )
        super().__init__(scenario, parts)
        self.weather.bad = False
        self.watchers.add(self)

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        if type(commit.event) in OWNERS_WORDS:
            self.machines[node_id].agent_committed(node_id, commit)

    def guest_began(self, box: Box) -> None:
        self._progress.boxes[box.run_id] = box

    def guest_ended(self, box: Box) -> None:
        self._progress.boxes.pop(box.run_id, None)
        self._progress[box.run_id] = (box.told_step, 0.0)

    def machine_changed(self, node_id: NodeId, what: str) -> None:
        station = self.coordinator.station
        if what == "lost power" and isinstance(station, CalmCoordinatorStation):
            # On average its last heartbeat was half a beat ago.
            heard_s = self.kernel.now_s - self.scenario.timing.heartbeat_s / 2
            station.leases.went_dark(node_id, heard_s)
            self.coordinator._arm()

    def _look(self) -> None:
        station = self.coordinator.station
        if station is not None:
            station.engine.state.progress = self._progress
        self._stop_when_over()
        self.kernel.after(LOOK_S, self._look)

    def _build_machine(self, plan: NodePlan, parts: Parts) -> None:
        clock = RightClock()
        runtime = GuestRuntime(self.kernel, clock, plan.id, plan.facts.capacity, self.watchers)
        place = Place(
            kernel=self.kernel,
            runtime=runtime,
            vault=self.vault,
            topology=self.topology,
            programs=self._programs,
            watch=self.watchers,
            keeps=bool(plan.facts.data_address),
        )
        agent = CalmAgentShell(
            self.kernel,
            plan,
            clock=clock,
            disk=CalmAgentDisk(f"{plan.id}-1"),
            place=place,
            transport=self.transport,
            stream=self.streams.named(f"agent/{plan.id}"),
            timing=self.scenario.timing,
            station_type=parts.agent_station,
        )
        self.transport.agents[plan.id] = agent
        machine = Machine(self.kernel, plan, clock=clock, runtime=runtime, agent=agent, watch=self.watchers)
        self.machines[plan.id] = machine


def _stormy(plan: TroublePlan) -> bool:
    quiet = TroublePlan(heal_s=plan.heal_s, scripted=plan.scripted)
    return plan != quiet or any(trouble.kind != "node_crash" for trouble in plan.scripted)
