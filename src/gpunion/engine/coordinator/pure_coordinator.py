"""A coordinator without hands: engine, channels, leases and timers, assembled.

A shell (live or simulated) drives it in this order and adds only I/O:

    for event, mark in station.frame_arrived(...) / station.due(now):      what happened
        commit = station.decide(now, event, mark)                          pure
        store.commit(commit)                                               may fail: then it was not decided
        station.committed(commit)                                          memory follows the store
    for node, frame in station.outgoing(now): send                         at least once
"""

from __future__ import annotations

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.trust import NodeMisled
from gpunion.domain.protocol.commit import Commit, InboxMark, NumberedOrder, SavedCampus
from gpunion.domain.protocol.effects import ForgetOrders, SendOrder
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    EventSetAside,
    NodeFellSilent,
    NodeHeard,
    NodeJoined,
    NodeReported,
    ProgramEnded,
    TimerFired,
)
from gpunion.domain.protocol.frames import (
    AgentFrame,
    CoordinatorFrame,
    Heartbeat,
    Hello,
    LeaseGrant,
    OrderFrame,
    ReportFrame,
    Welcome,
)
from gpunion.domain.protocol.orders import Order, ParkRun, StartRun, StopRun, UnparkRun
from gpunion.domain.timing import Timing
from gpunion.engine.channel import Receiver, Sender, Skew, report_in_our_time
from gpunion.engine.coordinator import message_checks
from gpunion.engine.coordinator.engine import CoordinatorEngine
from gpunion.engine.coordinator.handlers import outputs as finishing
from gpunion.engine.coordinator.heartbeats import HeardSaves, LeaseBook
from gpunion.engine.coordinator.message_checks import Refusal, Refusals
from gpunion.engine.coordinator.sessions import idle_news
from gpunion.engine.coordinator.state import CampusState
from gpunion.engine.timers import Timers
from gpunion.policy.policies import Policies

Posted = tuple[CoordinatorEvent, InboxMark | None]

_NOT_THERE = frozenset({NodePhase.LEFT, NodePhase.SILENT})


class NodeLink:
    """One node's channel as the coordinator keeps it."""

    def __init__(self) -> None:
        self.incarnation = ""
        self.connected = False
        self.hello_sent_s = 0.0
        self.orders: Sender[Order] = Sender()
        self.reports = Receiver()
        self.skew = Skew()
        self.replies: list[CoordinatorFrame] = []  # answers that need no memory
        self.saves = HeardSaves()
        self.finishing: frozenset[RunId] = frozenset()  # runs that its last heartbeat called so
        self.refusals = Refusals()
        self.unanswered: Heartbeat | None = None  # of a node that is silent until its word is committed


class PureCoordinator:
    def __init__(
        self, *, saved: SavedCampus, policies: Policies, timing: Timing, term: int, now_s: float
    ) -> None:
        self.timing = timing
        self.term = term
        self.timers = Timers(saved.timers)
        self.engine = CoordinatorEngine(
            state=CampusState.from_records(saved.records),
            policies=policies,
            timing=timing,
            timers=self.timers,
        )
        self.leases = LeaseBook(policies.suspicion.silent_after_s(timing))
        self.links: dict[NodeId, NodeLink] = {}
        self._load_links(saved)
        for node in self.engine.state.nodes.values():
            if node.phase not in _NOT_THERE:
                # Nobody knows when it was last heard: the longest wait is the safe one.
                self.leases.heard(node.id, now_s)

    # --- what happened ---------------------------------------------------------------------------

    def frame_arrived(self, now_s: float, node_id: NodeId, frame: AgentFrame) -> list[Posted]:
        """The events of one frame. Commit each (and call `committed`) before the next frame of this node."""
        link = self._link(node_id)
        link.skew.learn(now_s, frame.sent_s)
        if isinstance(frame, Hello):
            return self._greeted(now_s, link, frame)
        if not link.connected:
            return []  # no handshake on this connection yet: it must say hello first
        link.orders.acknowledge(frame.ack)
        events: list[Posted] = []
        node = self.engine.state.nodes.get(node_id)
        if node is None:
            return []
        if node.phase in _NOT_THERE:
            if node.phase is NodePhase.SILENT:
                events.append((NodeHeard(node_id=node_id), None))
            else:
                if isinstance(frame, Heartbeat):
                    link.replies.append(self._grant(now_s, node_id, frame))  # its goodbye is acknowledged
                return []
        self.leases.heard(node_id, now_s)
        if isinstance(frame, Heartbeat):
            frame, refusal = message_checks.of_heartbeat(self.engine.state, node_id, frame)
            for progress in frame.progress:
                self.engine.note_progress(progress.run_id, progress.step, progress.progress)
            self.engine.note_preparing(node_id, frame.preparing)
            self.engine.note_installed(node_id, frame.installed)
            self.engine.note_sessions(now_s, node_id, frame.sessions)
            link.saves.take(now_s, frame.saves)
            news = [*self._ended_programs(link, node_id, frame), *self._idle_sessions(now_s, node_id)]
            events, unheard = [*events, *news], bool(events)
            if unheard:
                # A lease that nobody remembers granting would let a run live on that is given up.
                link.unanswered = frame
            else:
                link.replies.append(self._grant(now_s, node_id, frame))
            return [*events, *self._misled(now_s, node, refusal)]
        if link.reports.expects(frame.seq):
            mark = InboxMark(node_id=node_id, incarnation=link.incarnation, seq=frame.seq)
            report = report_in_our_time(frame.report, link.skew)
            events.append((NodeReported(node_id=node_id, report=report), mark))
            refusal = message_checks.of_report(self.engine.state, node_id, report)
            events += self._misled(now_s, node, refusal)
        return events

    def _misled(self, now_s: float, node: Node, refusal: Refusal | None) -> list[Posted]:
        """Once too many of its messages were refused; the refusals themselves are the engine's."""
        if refusal is None or not refusal.counts or node.isolated_because:
            return []
        if not self.links[node.id].refusals.too_many(now_s):
            return []
        because = (
            f"{message_checks.REFUSED_MOST} of its messages were refused within "
            f"{message_checks.REFUSED_WITHIN_S:.0f} s, the last one because {refusal.because}"
        )
        return [(NodeMisled(node_id=node.id, because=because), None)]

    def as_said(self, node_id: NodeId, frame: AgentFrame) -> Posted:
        """What is set aside where a frame could not even be taken apart."""
        if isinstance(frame, ReportFrame) and self._link(node_id).reports.expects(frame.seq):
            mark = InboxMark(node_id=node_id, incarnation=self.links[node_id].incarnation, seq=frame.seq)
            return NodeReported(node_id=node_id, report=frame.report), mark
        return NodeMisled(node_id=node_id, because=f"its {type(frame).__name__} could not be read"), None

    def _ended_programs(self, link: NodeLink, node_id: NodeId, beat: Heartbeat) -> list[Posted]:
        """Those of which there is something to write down: one that is sent within a heartbeat is not."""
        before, link.finishing = link.finishing, frozenset(note.run_id for note in beat.finishing)
        events: list[Posted] = []
        for note in beat.finishing:
            run = self.engine.state.runs.get(note.run_id)
            if run is None or not finishing.news(run, note.trouble):
                continue
            if note.trouble or note.run_id in before:
                events.append((ProgramEnded(node_id=node_id, note=note), None))
        return events

    def _idle_sessions(self, now_s: float, node_id: NodeId) -> list[Posted]:
        state = self.engine.state
        if not state.sessions:
            return []
        return [(news, None) for news in idle_news(state, now_s, node_id, self.timing)]

    def disconnected(self, node_id: NodeId) -> None:
        link = self.links.get(node_id)
        if link is not None:
            link.connected = False
            link.replies.clear()
            link.saves.forget()

    def due(self, now_s: float) -> CoordinatorEvent | None:
        """One thing whose time has come. Ask again after it is committed."""
        for node_id, heard_s in self.leases.overdue(now_s):
            node = self.engine.state.nodes.get(node_id)
            if node is None or node.phase in _NOT_THERE:
                self.leases.forget(node_id)
                continue
            return NodeFellSilent(node_id=node_id, last_heard_s=heard_s)
        timer = self.timers.due(now_s)
        return None if timer is None else TimerFired(timer=timer)

    def next_due_s(self) -> float | None:
        silence_s, timer_s = self.leases.next_s(), self.timers.next_s()
        if silence_s is None or timer_s is None:
            return timer_s if silence_s is None else silence_s
        return min(silence_s, timer_s)

    # --- deciding and remembering ----------------------------------------------------------------

    def decide(
        self, now_s: float, event: CoordinatorEvent, mark: InboxMark | None = None, *, plan: bool = True
    ) -> Commit:
        decision = self.engine.handle(now_s, event, plan=plan)
        last: dict[NodeId, int] = {}
        orders = []
        for effect in decision.effects:
            if type(effect) is SendOrder:
                link = self._link(effect.node_id)
                seq = last.get(effect.node_id, link.orders.last_seq) + 1
                last[effect.node_id] = seq
                orders.append(NumberedOrder(node_id=effect.node_id, seq=seq, order=effect.order))
        return Commit(at_s=now_s, event=event, decision=decision, orders=tuple(orders), mark=mark)

    def committed(self, commit: Commit) -> None:
        event, effects = commit.event, commit.decision.effects
        if type(event) is TimerFired:
            self.timers.fired(event.timer)
        elif type(event) is NodeFellSilent:
            self.leases.forget(event.node_id)
        elif type(event) is NodeHeard:
            self._answer(commit.at_s, event.node_id)
        elif type(event) is EventSetAside and type(event.event) is NodeFellSilent:
            self.leases.forget(event.event.node_id)
        self.engine.apply(commit.decision)
        if effects:
            self.timers.apply(effects)
            for effect in effects:
                if type(effect) is ForgetOrders:
                    self.links.setdefault(effect.node_id, NodeLink()).orders.forget_all()
            for numbered in commit.orders:
                self.links[numbered.node_id].orders.push(numbered.order)
        if commit.mark is not None:
            self.links[commit.mark.node_id].reports.took(commit.mark.seq)
        if type(event) is NodeJoined:
            self._welcome(commit.at_s, event.node_id)

    # --- what to send ----------------------------------------------------------------------------

    def outgoing(self, now_s: float, node_id: NodeId) -> list[CoordinatorFrame]:
        link = self.links.get(node_id)
        if link is None or not link.connected:
            return []
        frames, link.replies = link.replies, []
        for seq, order in link.orders.due(now_s, self.timing.resend_s):
            meant, ack = self._still_meant(order), link.reports.last_seq
            frames.append(OrderFrame(term=self.term, seq=seq, ack=ack, sent_s=now_s, order=meant))
        return frames

    # --- private ---------------------------------------------------------------------------------

    def _link(self, node_id: NodeId) -> NodeLink:
        link = self.links.get(node_id)
        if link is None:
            link = self.links[node_id] = NodeLink()
        return link

    def _still_meant(self, order: Order) -> Order:
        """A start that was given up before it arrived must not happen, nor must a parking for a job; their
        numbers are still needed."""
        if not isinstance(order, StartRun | ParkRun):
            return order
        run = self.engine.state.runs.get(order.run_id)
        if isinstance(order, ParkRun):
            if run is None or not run.living or not run.parking:
                return UnparkRun(run_id=order.run_id, job_id=order.job_id, epoch=order.epoch)
        elif run is None or not run.living:
            return StopRun(run_id=order.run_id, job_id=order.job_id, epoch=order.epoch)
        return order

    def _load_links(self, saved: SavedCampus) -> None:
        for node in self.engine.state.nodes.values():
            self.links[node.id] = NodeLink()
            self.links[node.id].incarnation = node.incarnation
        for mark in saved.marks:
            link = self.links.setdefault(mark.node_id, NodeLink())
            if link.incarnation == mark.incarnation:
                link.reports.took(mark.seq)
        last_seq = dict(saved.last_order_seq)
        waiting: dict[NodeId, list[tuple[int, Order]]] = {}
        for numbered in saved.orders:
            waiting.setdefault(numbered.node_id, []).append((numbered.seq, numbered.order))
        for node_id in sorted({*last_seq, *waiting}):
            link = self.links.setdefault(node_id, NodeLink())
            link.orders.restore(sorted(waiting.get(node_id, [])), last_seq.get(node_id, 0))

    def _greeted(self, now_s: float, link: NodeLink, hello: Hello) -> list[Posted]:
        if hello.incarnation != link.incarnation:
            link.incarnation = hello.incarnation
            link.reports = Receiver()
        else:
            link.orders.acknowledge(hello.ack)
        link.connected = False  # until the join is committed and the welcome goes out
        link.replies.clear()
        link.unanswered = None  # by the clock of another boot a lease could last for days
        link.saves.forget()
        link.hello_sent_s = hello.sent_s
        link.skew = Skew()  # a rebooted machine's clock begins anew
        link.skew.learn(now_s, hello.sent_s)
        self.leases.heard(hello.node_id, now_s)
        joined = NodeJoined(
            node_id=hello.node_id,
            incarnation=hello.incarnation,
            facts=hello.facts,
            guests=message_checks.own_guests(self.engine.state, hello.node_id, hello.guests),
        )
        return [(joined, None)]

    def _welcome(self, now_s: float, node_id: NodeId) -> None:
        link = self.links[node_id]
        link.connected = True
        link.orders.reconnected()
        first = min(link.orders.waiting, default=link.orders.last_seq + 1)
        link.replies.append(
            Welcome(
                term=self.term,
                hello_sent_s=link.hello_sent_s,
                orders_before=first - 1,
                ack=link.reports.last_seq,
                timing=self.timing,
                sent_s=now_s,
                leased=not self._isolated(node_id),
            )
        )

    def _answer(self, now_s: float, node_id: NodeId) -> None:
        link = self.links[node_id]
        if link.unanswered is not None and link.connected:
            link.replies.append(self._grant(now_s, node_id, link.unanswered))
        link.unanswered = None

    def _isolated(self, node_id: NodeId) -> bool:
        node = self.engine.state.nodes.get(node_id)
        return node is not None and bool(node.isolated_because)

    def _grant(self, now_s: float, node_id: NodeId, heartbeat: Heartbeat) -> LeaseGrant:
        """To an isolated node it only says what has arrived: a lease of no length lengthens none."""
        link = self.links[node_id]
        return LeaseGrant(
            term=self.term,
            heartbeat_sent_s=heartbeat.sent_s,
            lease_s=0.0 if self._isolated(node_id) else self.timing.lease_s,
            ack=link.reports.last_seq,
            sent_s=now_s,
        )
