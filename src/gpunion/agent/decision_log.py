"""One line a committed decision, for people and programs alike."""

from __future__ import annotations

import structlog

from gpunion.domain.protocol.commit import AgentCommit
from gpunion.domain.protocol.effects import CancelTimer, LimitGuest, SendReport, SetTimer
from gpunion.domain.protocol.events import LeaseRenewed, OrderReceived, TimerFired
from gpunion.domain.protocol.timers import text_of
from gpunion.engine.transcript import Transcript

log = structlog.get_logger()


class DecisionLog:
    """`told` is the decision as every shell tells it: laid beside the simulator's, it must be the same."""

    def __init__(self) -> None:
        self._transcript = Transcript()

    def committed(self, commit: AgentCommit, took_ms: float) -> None:
        told = self._transcript.line(commit)
        if isinstance(commit.event, LeaseRenewed):
            return  # every heartbeat has one
        event = commit.event
        effects = [
            type(effect).__name__
            for effect in commit.decision.effects
            if not isinstance(effect, SetTimer | CancelTimer | SendReport | LimitGuest)
        ]
        log.info(
            "decision",
            on=type(event.order).__name__ if isinstance(event, OrderReceived) else type(event).__name__,
            subject=_subject(commit),
            reasons=[reason.sentence() for reason in commit.decision.reasons],
            effects=effects,
            reports=[type(numbered.report).__name__ for numbered in commit.reports],
            told=told,
            took_ms=round(took_ms, 1),
        )


def _subject(commit: AgentCommit) -> str:
    event = commit.event
    if isinstance(event, TimerFired):
        return text_of(event.timer)
    source = event.order if isinstance(event, OrderReceived) else event
    return str(getattr(source, "run_id", "machine"))
