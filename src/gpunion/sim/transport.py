"""The connections between agents and the coordinator, and what the weather does to frames on them.

A frame belongs to the connection it was sent on and dies with it. A cut (partition) says nothing to
anybody: frames vanish, and each end must notice by itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.frames import AgentFrame, CoordinatorFrame
from gpunion.sim.fault_points import Tally
from gpunion.sim.kernel import Kernel
from gpunion.sim.observer import Watch

# A delayed frame is late by up to this long: beyond a lease, so that it can arrive after everything changed.
DELAY_MAX_S = 15.0
# A reordered frame is overtaken by those sent within this time after it.
REORDER_MAX_S = 0.5


@dataclass(slots=True)
class Weather:
    """Chances per frame. Troubles switch `bad` off at the heal time."""

    loss: float = 0.0
    duplication: float = 0.0
    delay: float = 0.0
    reorder: float = 0.0
    bad: bool = True


class CoordinatorEnd(Protocol):
    def listening(self) -> bool: ...

    def frame_arrived(self, node_id: NodeId, frame: AgentFrame) -> None: ...

    def connection_lost(self, node_id: NodeId) -> None: ...


class AgentEnd(Protocol):
    def frame_arrived(self, frame: CoordinatorFrame) -> None: ...

    def connection_lost(self) -> None: ...


class Mouth(Protocol):
    """Stands between one agent and the wire."""

    def instead_of(self, frame: AgentFrame) -> list[AgentFrame]: ...

    def heard(self, frame: CoordinatorFrame) -> CoordinatorFrame: ...


class Transport:
    def __init__(
        self,
        kernel: Kernel,
        *,
        latency_s: float,
        weather: Weather,
        stream: random.Random,
        tally: Tally,
        watch: Watch,
    ) -> None:
        self._kernel = kernel
        self._latency_s = latency_s
        self._weather = weather
        self._stream = stream
        self._tally = tally
        self._watch = watch
        self._open: dict[NodeId, int] = {}  # the connection each agent has now
        self._numbers = 0
        self._in_line_s: dict[
            tuple[NodeId, str], float
        ] = {}  # frames do not overtake unless the weather says so
        self.cut: set[NodeId] = set()
        self.coordinator: CoordinatorEnd | None = None
        self.agents: dict[NodeId, AgentEnd] = {}
        self.liars: dict[NodeId, Mouth] = {}

    def connect(self, node_id: NodeId) -> bool:
        """An agent dials. A new connection replaces the one the coordinator may still believe in."""
        if self.coordinator is None or not self.coordinator.listening() or node_id in self.cut:
            return False
        self._open.pop(node_id, None)
        self.coordinator.connection_lost(node_id)
        self._numbers += 1
        self._open[node_id] = self._numbers
        return True

    def connected(self, node_id: NodeId) -> bool:
        return node_id in self._open

    def break_connection(self, node_id: NodeId) -> None:
        """Both ends notice at once, unless a cut keeps the news from the coordinator."""
        if self._open.pop(node_id, None) is None:
            return
        self.agents[node_id].connection_lost()
        if self.coordinator is not None and node_id not in self.cut:
            self.coordinator.connection_lost(node_id)

    def hang_up(self, node_id: NodeId) -> None:
        """The agent gives the connection up, or died."""
        if self._open.pop(node_id, None) is not None:
            if self.coordinator is not None and node_id not in self.cut:
                self.coordinator.connection_lost(node_id)

    def coordinator_died(self) -> None:
        for node_id in sorted(self._open):
            if node_id not in self.cut:
                del self._open[node_id]
                self.agents[node_id].connection_lost()

    def send_up(self, node_id: NodeId, frame: AgentFrame) -> None:
        self._watch.sent_up(node_id, frame)
        liar = self.liars.get(node_id)
        for said in (frame,) if liar is None else liar.instead_of(frame):
            self.send_as_is(node_id, said)

    def send_as_is(self, node_id: NodeId, frame: AgentFrame) -> None:
        coordinator = self.coordinator
        if coordinator is not None:
            self._send(node_id, "up", lambda: coordinator.frame_arrived(node_id, frame))

    def send_down(self, node_id: NodeId, frame: CoordinatorFrame) -> None:
        self._watch.sent_down(node_id, frame)
        agent, liar = self.agents[node_id], self.liars.get(node_id)
        if liar is not None:
            frame = liar.heard(frame)
        self._send(node_id, "down", lambda: agent.frame_arrived(frame))

    def _send(self, node_id: NodeId, way: str, deliver: Callable[[], None]) -> None:
        connection = self._open.get(node_id)
        if connection is None:
            return

        def arrive() -> None:
            if self._open.get(node_id) == connection and node_id not in self.cut:
                deliver()

        for delay_s, in_line in self._fates():
            at_s = self._kernel.now_s + self._latency_s + delay_s
            if in_line:
                at_s = max(at_s, self._in_line_s.get((node_id, way), 0.0))
                self._in_line_s[node_id, way] = at_s
            self._kernel.at(at_s, arrive)

    def _fates(self) -> list[tuple[float, bool]]:
        """How late each copy of a frame is, and whether it keeps its place in the line."""
        weather, draw = self._weather, self._stream.random
        if not weather.bad:
            return [(0.0, True)]
        if draw() < weather.loss:
            self._tally.count("message_loss")
            return []
        fates = [(0.0, True)]
        if draw() < weather.delay:
            self._tally.count("message_delay")
            fates = [(self._stream.uniform(0.5, DELAY_MAX_S), False)]
        elif draw() < weather.reorder:
            self._tally.count("message_reorder")
            fates = [(self._stream.uniform(0.05, REORDER_MAX_S), False)]
        if draw() < weather.duplication:
            self._tally.count("message_duplication")
            fates.append((self._stream.uniform(0.0, DELAY_MAX_S), False))
        return fates
