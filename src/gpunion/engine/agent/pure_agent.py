"""An agent without hands: engine, channel and timers, assembled. Driven like the coordinator's station."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpunion.domain.environment import InstalledEnvironment
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.commit import AgentCommit, NumberedReport, SavedAgent
from gpunion.domain.protocol.effects import SendReport
from gpunion.domain.protocol.events import AgentEvent, LeaseRenewed, OrderReceived, TimerFired
from gpunion.domain.protocol.frames import (
    AgentFrame,
    CoordinatorFrame,
    Finishing,
    Heartbeat,
    Hello,
    LeaseGrant,
    Preparing,
    Progress,
    ReportFrame,
    SaveNote,
    SessionNote,
    Welcome,
)
from gpunion.domain.protocol.reports import Report, SignsShown
from gpunion.domain.timing import Timing
from gpunion.engine.agent.engine import AgentEngine
from gpunion.engine.agent.state import AgentState
from gpunion.engine.channel import Receiver, Sender, Skew, order_in_our_time
from gpunion.engine.timers import Timers

Posted = tuple[AgentEvent, int | None]  # the event, and the number of the order it came from


class PureAgent:
    def __init__(self, *, node_id: NodeId, facts: NodeFacts, saved: SavedAgent, timing: Timing) -> None:
        self.node_id = node_id
        self.facts = facts
        self.incarnation = saved.incarnation
        self.timers = Timers(saved.timers)
        self.engine = AgentEngine(
            state=AgentState.from_records(saved.records), facts=facts, timing=timing, timers=self.timers
        )
        self.reports: Sender[Report] = Sender()
        self.reports.restore([(r.seq, r.report) for r in saved.reports], saved.last_report_seq)
        self.orders = Receiver(saved.order_seq)
        self.skew = Skew()
        self.connected = False
        self.term = 0
        self.forgotten = False  # by a coordinator whose database is older than what we told each other
        self.greetings = 0  # what only holds while connected is told again after each
        self._greeted_s: float | None = None
        self._offered_autonomy_s = facts.terms.autonomy_s
        self._granted_s = 0.0  # when the newest lease was granted, in the coordinator's time

    @property
    def timing(self) -> Timing:
        return self.engine.timing

    # --- what happened ---------------------------------------------------------------------------

    def hello(self, now_s: float) -> Hello:
        self.connected = False
        self.greetings += 1
        self._greeted_s = now_s
        self._pass_over_old_signs()
        self._offered_autonomy_s = self.facts.terms.autonomy_s
        guests = tuple(sorted(g.run_id for g in self.engine.state.guests.values() if g.living))
        return Hello(
            node_id=self.node_id,
            incarnation=self.incarnation,
            facts=self.facts,
            guests=guests,
            ack=self.orders.last_seq,
            sent_s=now_s,
        )

    def frame_arrived(self, now_s: float, frame: CoordinatorFrame) -> list[Posted]:
        """The events of one frame. Commit each (and call `committed`) before the next frame."""
        if frame.term < self.term:
            return []  # a coordinator that was replaced has no say any more
        self.skew.learn(now_s, frame.sent_s)
        if isinstance(frame, Welcome):
            if self._remembers_more_than(frame):
                self.forgotten = True
                return []
            newest_s = self._granted_s if frame.term == self.term else frame.sent_s
            self._granted_s = max(newest_s, frame.sent_s)  # another term is another machine's time
            self.term = frame.term
            self.connected = True
            self.engine.state.cut_off = False
            self._agree_on(self._offered_autonomy_s)
            self.engine.timing = frame.timing
            self.orders.took(frame.orders_before)
            self.reports.acknowledge(frame.ack)
            self.reports.reconnected()
            lease_s = frame.timing.lease_s if frame.leased else 0.0
            return [(LeaseRenewed(until_s=frame.hello_sent_s + lease_s), None)]
        if not self.connected:
            return []
        self.term = frame.term
        self.reports.acknowledge(frame.ack)
        if isinstance(frame, LeaseGrant):
            self._granted_s = max(self._granted_s, frame.sent_s)
            return [(LeaseRenewed(until_s=frame.heartbeat_sent_s + frame.lease_s), None)]
        if frame.sent_s < self._granted_s:
            # Overtaken by a lease. It may be from before we were given up and the lease from after: then a
            # start in it was meant for a life that is over. What is still meant will be sent again.
            return []
        if self.orders.expects(frame.seq):
            return [(OrderReceived(order=order_in_our_time(frame.order, self.skew)), frame.seq)]
        return []

    def disconnected(self, *, in_vain: bool = False) -> None:
        """`in_vain`: a call that nobody answered. A connection that broke may be back at once, or was closed
        to greet again: then a plan may still come."""
        self.connected = False
        self.engine.state.cut_off = self.engine.state.cut_off or in_vain

    def guests_may_go_on_s(self, now_s: float) -> float:
        """For so long without a word of the coordinator; nothing where nobody is here, or it is over."""
        state = self.engine.state
        if state.lease_until_s is None or not any(guest.living for guest in state.guests.values()):
            return 0.0
        return max(0.0, state.lease_until_s + self.facts.terms.autonomy_s - now_s)

    def _pass_over_old_signs(self) -> None:
        """What an owner did before is nobody's business any more; its number is still needed."""
        for seq, report in self.reports.waiting.items():
            if isinstance(report, SignsShown):
                self.reports.waiting[seq] = SignsShown(signs=None)

    def _remembers_more_than(self, welcome: Welcome) -> bool:
        """It has to answer this very hello: a late welcome of an earlier connection knows less by right.

        Then what we took or were acknowledged was committed by it, unless its database was put back to an
        earlier day. Its orders would come with numbers that are used up, and our reports with numbers that
        it does not expect: neither would ever be taken again.
        """
        if welcome.hello_sent_s != self._greeted_s:
            return False
        acknowledged = self.reports.last_seq - len(self.reports.waiting)
        return welcome.orders_before < self.orders.last_seq or welcome.ack < acknowledged

    def due(self, now_s: float) -> AgentEvent | None:
        timer = self.timers.due(now_s)
        return None if timer is None else TimerFired(timer=timer)

    def next_due_s(self) -> float | None:
        return self.timers.next_s()

    # --- deciding and remembering ----------------------------------------------------------------

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        decision = self.engine.handle(now_s, event)
        seq, numbered = self.reports.last_seq, []
        for effect in decision.effects:
            if type(effect) is SendReport:
                seq += 1
                numbered.append(NumberedReport(seq=seq, report=effect.report))
        reports = tuple(numbered)
        return AgentCommit(at_s=now_s, event=event, decision=decision, reports=reports, order_seq=order_seq)

    def committed(self, commit: AgentCommit) -> None:
        if type(commit.event) is TimerFired:
            self.timers.fired(commit.event.timer)
        self.engine.apply(commit.decision)
        self.timers.apply(commit.decision.effects)
        for numbered in commit.reports:
            self.reports.push(numbered.report)
        if commit.order_seq is not None:
            self.orders.took(commit.order_seq)

    def saved(self) -> SavedAgent:
        """What must be on disk for a restart to go on from here."""
        return SavedAgent(
            incarnation=self.incarnation,
            records=self.engine.state.records(),
            timers=self.timers.items(),
            reports=tuple(NumberedReport(seq=s, report=r) for s, r in sorted(self.reports.waiting.items())),
            last_report_seq=self.reports.last_seq,
            order_seq=self.orders.last_seq,
        )

    def change_facts(self, facts: NodeFacts) -> None:
        """Guests may stay alone for longer only once the coordinator knows to wait that long: from the next
        handshake on. Anything else counts at once."""
        self.facts = facts
        self._agree_on(min(self.engine.facts.terms.autonomy_s, facts.terms.autonomy_s))

    def _agree_on(self, autonomy_s: float) -> None:
        terms = self.facts.terms
        agreed = replace(terms, autonomy_s=min(autonomy_s, terms.autonomy_s))
        self.engine.facts = replace(self.facts, terms=agreed)

    # --- what to send ----------------------------------------------------------------------------

    def heartbeat(
        self,
        now_s: float,
        progress: Iterable[Progress] = (),
        preparing: Iterable[Preparing] = (),
        saves: Iterable[SaveNote] = (),
        finishing: Iterable[Finishing] = (),
        installed: Iterable[InstalledEnvironment] = (),
        sessions: Iterable[SessionNote] = (),
    ) -> Heartbeat:
        return Heartbeat(
            sent_s=now_s,
            ack=self.orders.last_seq,
            progress=tuple(progress),
            preparing=tuple(preparing),
            saves=tuple(saves),
            finishing=tuple(finishing),
            installed=tuple(installed),
            sessions=tuple(sessions),
        )

    def outgoing(self, now_s: float) -> list[AgentFrame]:
        if not self.connected:
            return []
        due, ack = self.reports.due(now_s, self.timing.resend_s), self.orders.last_seq
        return [ReportFrame(seq=seq, ack=ack, sent_s=now_s, report=report) for seq, report in due]
