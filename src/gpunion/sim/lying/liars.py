"""A node that lies: what its agent says goes through here before it reaches the wire.

The agent behind it is honest and knows nothing of it. Reports are numbered anew, since those that are made up
have numbers too, and what the coordinator acknowledges is told to the agent in its own numbers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.protocol.frames import (
    AgentFrame,
    BusyGpus,
    CoordinatorFrame,
    GpuReadings,
    Hello,
    ReportFrame,
)
from gpunion.domain.protocol.reports import NodeResumed
from gpunion.engine.coordinator.pure_coordinator import NodeLink, PureCoordinator
from gpunion.sim.fault_points import Tally
from gpunion.sim.kernel import Kernel
from gpunion.sim.lying.lies import Forger
from gpunion.sim.machine.agent import AgentShell
from gpunion.sim.program.clocks import Clock
from gpunion.sim.scenario.values import LiarPlan
from gpunion.sim.transport import Transport
from gpunion.wire import agent_v1
from gpunion.wire.codec import Malformed


class Liar:
    def __init__(
        self,
        kernel: Kernel,
        plan: LiarPlan,
        draw: random.Random,
        *,
        agent: AgentShell,
        clock: Clock,
        station: Callable[[], PureCoordinator | None],
        transport: Transport,
        tally: Tally,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._kernel = kernel
        self._plan = plan
        self._draw = draw
        self._forger = Forger(draw, plan.node_id)
        self._agent = agent
        self._clock = clock
        self._station = station
        self._transport = transport
        self._tally = tally
        self._incarnation = ""
        self._hello: Hello | None = None  # the last true one
        self._numbers: dict[int, int] = {}  # the agent's of a report, and the coordinator's

    def start(self) -> None:
        self._transport.liars[self._plan.node_id] = self
        self._kernel.after(self._wait_s(), self._makes_something_up)

    # --- on the way up ---------------------------------------------------------------------------

    def instead_of(self, frame: AgentFrame) -> list[AgentFrame]:
        """What reaches the wire of what the agent says."""
        frame = self._numbered_anew(frame)
        station = self._station()
        if station is None or not self._lies() or self._draw.random() >= self._plan.lie_share:
            return [frame]
        fate = self._draw.random()
        if fate < 0.1:
            return self._counted("doubled", [frame, frame])
        lie = self._read(self._forger.envelope(self._forger.with_a_lie(frame, station.engine.state)))
        if lie is not None:
            return [lie]
        # A hello that nobody can read is a connection that never was: the true one follows.
        return [frame] if isinstance(frame, Hello) or fate < 0.6 else []

    def _makes_something_up(self) -> None:
        station, node_id = self._station(), self._plan.node_id
        if self._kernel.now_s < self._plan.until_s:
            self._kernel.after(self._wait_s(), self._makes_something_up)
        link = None if station is None else station.links.get(node_id)
        if station is None or link is None or not self._lies() or not self._transport.connected(node_id):
            return
        lie = self._way_back(station, link) or self._read(self._forger.envelope(self._made_up(station, link)))
        if lie is not None:
            self._transport.send_as_is(node_id, lie)

    def _way_back(self, station: PureCoordinator, link: NodeLink) -> AgentFrame | None:
        """True words of its own that make the coordinator send it guests again, else it soon has none."""
        node = station.engine.state.nodes.get(self._plan.node_id)
        lends = node is None or (node.phase is NodePhase.SHARING and not node.withheld)
        if lends or self._hello is None or self._draw.random() < 0.7:
            return None
        now_s = self._clock.local(self._kernel.now_s)
        if node is not None and node.phase is NodePhase.LEFT:
            return replace(self._hello, sent_s=now_s)
        return ReportFrame(seq=link.reports.last_seq + 1, ack=0, sent_s=now_s, report=NodeResumed())

    def _made_up(self, station: PureCoordinator, link: NodeLink) -> dict[str, object]:
        state, now_s = station.engine.state, self._clock.local(self._kernel.now_s)
        ack = 0 if self._agent.station is None else self._agent.station.orders.last_seq
        if self._draw.random() < 0.25:
            return self._forger.heartbeat(state, ack=ack, now_s=now_s)
        return self._forger.report(state, seq=link.reports.last_seq + 1, ack=ack, now_s=now_s)

    def _read(self, data: bytes) -> AgentFrame | None:
        """As the coordinator's door does; None where it would end the connection there."""
        node_id = self._plan.node_id
        self._tally.count("lie")
        try:
            frame = agent_v1.unpack_from_agent(data)
        except Malformed:
            self.counts["unreadable"] += 1
            return None
        if isinstance(frame, GpuReadings | BusyGpus):
            return None  # decides nothing
        if isinstance(frame, Hello) and frame.node_id != node_id:
            self.counts["not its name"] += 1
            return None
        self.counts["read"] += 1
        return frame

    def _lies(self) -> bool:
        return self._plan.from_s <= self._kernel.now_s < self._plan.until_s

    def _wait_s(self) -> float:
        return self._draw.expovariate(self._plan.made_up_per_s)

    def _counted(self, what: str, frames: list[AgentFrame]) -> list[AgentFrame]:
        self._tally.count("lie")
        self.counts[what] += 1
        return frames

    # --- numbers ---------------------------------------------------------------------------------

    def _numbered_anew(self, frame: AgentFrame) -> AgentFrame:
        if isinstance(frame, Hello):
            self._hello = frame
            if frame.incarnation != self._incarnation:
                self._incarnation = frame.incarnation
                self._numbers.clear()
        if not isinstance(frame, ReportFrame):
            return frame
        number = self._numbers.get(frame.seq)
        if number is None:
            number = self._numbers[frame.seq] = max([self._taken(), *self._numbers.values()]) + 1
        return replace(frame, seq=number)

    def _taken(self) -> int:
        """The last number that the coordinator has of this node."""
        station = self._station()
        link = None if station is None else station.links.get(self._plan.node_id)
        return 0 if link is None or link.incarnation != self._incarnation else link.reports.last_seq

    def heard(self, frame: CoordinatorFrame) -> CoordinatorFrame:
        """On the way down: what was acknowledged, in the agent's own numbers."""
        station = self._agent.station
        if station is None:
            return frame
        known = station.reports.last_seq - len(station.reports.waiting)
        ours = [number for number, theirs in self._numbers.items() if theirs <= frame.ack]
        return replace(frame, ack=max([known, *ours]))
