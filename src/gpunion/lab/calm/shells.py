"""The shells of a campus in fair weather (see `calm`): the same steps in the same order, without the detours.

Nobody dies in the middle of a commit here, nothing is read back from a disk but after a power cut, every
clock is right and every frame arrives once: what the other shells do for those who cannot count on that would
change nothing, and is most of what a simulated save would cost.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from math import inf

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.protocol.commit import AgentCommit, InboxMark, SavedAgent
from gpunion.domain.protocol.effects import SendReport, SetTimer
from gpunion.domain.protocol.events import AgentEvent, CoordinatorEvent, NodeJoined, TimerFired
from gpunion.domain.protocol.frames import AgentFrame, CoordinatorFrame, OrderFrame, ReportFrame, Welcome
from gpunion.sim.coordinator import CoordinatorShell, touched
from gpunion.sim.disks import AgentDisk
from gpunion.sim.machine.agent import ROUNDING_S, AgentShell
from gpunion.sim.machine.hands import OF_THE_STATION
from gpunion.sim.transport import Transport

_SHARING = OwnerState.SHARING
# A lease that stands. Beyond any horizon, and still a number that clocks can add to.
STANDING_S = 1e12


class CalmCoordinatorShell(CoordinatorShell):
    def post(self, event: CoordinatorEvent, mark: InboxMark | None = None) -> bool:
        station = self.station
        if station is None:
            return False
        commit = station.decide(self._kernel.now_s, event, mark)
        self.disk.commit(commit)
        station.committed(commit)
        self._watch.coordinator_committed(commit, station)
        if type(event) is TimerFired and len(commit.orders) == 1:  # most that is ordered: a save
            self._flush(commit.orders[0].node_id)
        elif commit.orders or type(event) is NodeJoined:  # nobody else has anything to hear
            for node_id in touched(commit):
                self._flush(node_id)
        soonest_s = soonest_set(commit.decision.effects)
        wake = self._wake
        # An alarm that is there comes early, looks, and sleeps again.
        if soonest_s < inf and (wake is None or not wake.pending or soonest_s < wake.at_s):
            self._arm()
        return True

    def frame_arrived(self, node_id: NodeId, frame: AgentFrame) -> None:
        station = self.station
        if station is None:
            return
        for event, mark in station.frame_arrived(self._kernel.now_s, node_id, frame):
            self.post(event, mark)
        if type(frame) is not ReportFrame:  # else there is no answer but what was posted
            self._flush(node_id)
            self._arm()

    def _now(self) -> float:
        return self._kernel.now_s


class CalmAgentShell(AgentShell):
    """Needs no heartbeat once it has its lease, and its disk only when its machine loses power."""

    def stop(self) -> None:
        if self.station is not None and isinstance(self.disk, CalmAgentDisk):
            self.disk.kept = self.station.saved()
        super().stop()

    def post(self, event: AgentEvent, order_seq: int | None = None) -> bool:
        station, hands = self.station, self._hands
        if station is None or hands is None:
            return False
        commit = station.decide(self._kernel.now_s, event, order_seq)
        self.place.watch.agent_committed(self.node_id, commit)
        station.committed(commit)
        timers_changed = False
        for effect in commit.decision.effects:
            kind = type(effect)
            if kind not in OF_THE_STATION:
                hands.perform(effect)
            elif kind is not SendReport:
                timers_changed = True
        if station.engine.state.holding.owner_state is not _SHARING:
            hands.owner_has_it()
        if commit.reports:
            self._flush()
        if timers_changed:
            self._arm()
        return True

    def frame_arrived(self, frame: CoordinatorFrame) -> None:
        station = self.station
        if station is None:
            return
        for event, order_seq in station.frame_arrived(self._kernel.now_s, frame):
            self.post(event, order_seq)
        if type(frame) is Welcome:
            self._send_heartbeat()  # the first lease, before anything else
            self._tell_signs()
        if type(frame) is not OrderFrame:  # else there is no answer but what was posted
            self._flush()

    def _now(self) -> float:
        return self._kernel.now_s

    def _arm(self) -> None:
        """A lease that stands never ends, and a save that is over is not waited for: nobody need be woken."""
        next_s = None if self.station is None else self.station.timers.next_s()
        at_s = inf if next_s is None or next_s >= STANDING_S else next_s + ROUNDING_S
        wake = self._wake
        if wake is not None:
            if wake.pending and wake.at_s <= at_s < inf:
                return  # it wakes early, looks, and sleeps again
            wake.cancel()
        self._wake = self._kernel.at(at_s, self._woken) if at_s < inf else None

    def _tick(self) -> None:
        pass


class CalmAgentDisk(AgentDisk):
    """Written once, when the power goes: after every commit memory and disk say the same."""

    kept: SavedAgent | None = None

    def commit(self, commit: AgentCommit) -> None:
        pass

    def acknowledged(self, waiting: Container[int]) -> None:
        pass

    def load(self) -> SavedAgent:
        return super().load() if self.kept is None else self.kept


class CalmTransport(Transport):
    """Delivers every frame in its turn, and tells its sender at once that it did.

    All take equally long, so that they arrive in the order in which they were sent."""

    def send_up(self, node_id: NodeId, frame: AgentFrame) -> None:
        self._watch.sent_up(node_id, frame)
        connection = self._open.get(node_id)
        if connection is not None:
            at_s = self._kernel.now_s + self._latency_s
            self._kernel.at(at_s, partial(self._came_up, node_id, connection, frame))

    def send_down(self, node_id: NodeId, frame: CoordinatorFrame) -> None:
        self._watch.sent_down(node_id, frame)
        connection = self._open.get(node_id)
        if connection is not None:
            at_s = self._kernel.now_s + self._latency_s
            self._kernel.at(at_s, partial(self._came_down, node_id, connection, frame))

    def _came_up(self, node_id: NodeId, connection: int, frame: AgentFrame) -> None:
        coordinator, agent = self.coordinator, self.agents[node_id]
        if self._open.get(node_id) != connection or coordinator is None:
            return
        coordinator.frame_arrived(node_id, frame)
        if type(frame) is ReportFrame:
            assert isinstance(coordinator, CoordinatorShell)
            assert isinstance(agent, AgentShell)
            here, there = agent.station, coordinator.station
            if here is not None and there is not None:
                here.reports.acknowledge(there.links[node_id].reports.last_seq)

    def _came_down(self, node_id: NodeId, connection: int, frame: CoordinatorFrame) -> None:
        coordinator, agent = self.coordinator, self.agents[node_id]
        if self._open.get(node_id) != connection:
            return
        agent.frame_arrived(frame)
        if type(frame) is OrderFrame:
            assert isinstance(coordinator, CoordinatorShell)
            assert isinstance(agent, AgentShell)
            here, there = agent.station, coordinator.station
            if here is not None and there is not None:
                there.links[node_id].orders.acknowledge(here.orders.last_seq)


def soonest_set(effects: tuple[object, ...]) -> float:
    """Of the timers that are set: only such a one can be due before the alarm that is there."""
    soonest_s = inf
    for effect in effects:
        if type(effect) is SetTimer and effect.at_s < soonest_s:
            soonest_s = effect.at_s
    return soonest_s
