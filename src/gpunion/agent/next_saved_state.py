"""What the agent's memory will be once a commit is applied, worked out before anything is applied.

The file on disk must be ahead of the world, never behind it: first this is written, then memory follows, then
the effects are performed and the order is acknowledged. A crash in between is healed by looking at what is
really there (`AgentStarted`).
"""

from __future__ import annotations

from gpunion.domain.jobs.guest import Lease
from gpunion.domain.protocol.commit import AgentCommit, NumberedReport, SavedAgent
from gpunion.domain.protocol.events import LeaseRenewed, TimerFired
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.engine.agent.state import AgentState
from gpunion.engine.timers import Timers


def saved_after(station: PureAgent, commit: AgentCommit) -> SavedAgent:
    state = AgentState.from_records(station.engine.state.records())
    state.apply(commit.decision.changes, commit.decision.forgotten)
    timers = Timers(station.timers.items())
    if isinstance(commit.event, TimerFired):
        timers.fired(commit.event.timer)
    timers.apply(commit.decision.effects)
    waiting = (
        NumberedReport(seq=seq, report=report) for seq, report in sorted(station.reports.waiting.items())
    )
    return SavedAgent(
        incarnation=station.incarnation,
        records=state.records(),
        timers=timers.items(),
        reports=(*waiting, *commit.reports),
        last_report_seq=max([station.reports.last_seq, *(report.seq for report in commit.reports)]),
        order_seq=max(station.orders.last_seq, commit.order_seq or 0),
    )


def worth_writing(commit: AgentCommit) -> bool:
    """False for what a restart need not know: an answered heartbeat moves the lease and nothing else.

    A restarted agent has no lease until it is told again, so the timer of the last one may be an old one.
    """
    decision = commit.decision
    changed = any(not isinstance(record, Lease) for record in decision.changes)
    if changed or decision.forgotten or commit.reports or commit.order_seq is not None:
        return True
    return bool(decision.effects) and not isinstance(commit.event, LeaseRenewed)
