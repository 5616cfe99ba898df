"""An engine alone, with words typed in on a clock that only the test moves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from typing import Any, Generic, Protocol, Self, TypeVar

from gpunion.domain.protocol.decision import AgentDecision, Decision
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.timers import Timer
from gpunion.engine.timers import Timers

Heard = TypeVar("Heard", contravariant=True)
Made = TypeVar("Made", Decision, AgentDecision)


class Engine(Protocol[Heard, Made]):
    @property
    def state(self) -> object: ...

    def handle(self, now_s: float, event: Heard, /) -> Made: ...

    def apply(self, decision: Made, /) -> None: ...


def decided(engine: Engine[Heard, Made], timers: Timers, now_s: float, event: Heard) -> Made:
    """Its reasons can be put in words, and thinking about it has left no trace."""
    before = deepcopy(engine.state)
    decision = engine.handle(now_s, event)
    assert engine.state == before, f"thinking about {event} left a trace"
    if isinstance(event, TimerFired):
        timers.fired(event.timer)
    engine.apply(decision)
    timers.apply(decision.effects)
    for reason in decision.reasons:
        assert "{" not in reason.sentence()
    return decision


class EngineAlone(ABC, Generic[Made]):
    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self.timers: Timers[Any] = Timers()

    @abstractmethod
    def hears(self, event: Any) -> Made: ...

    def later(self, seconds: float) -> Self:
        self.now_s += seconds
        return self

    @abstractmethod
    def timer(self, text: str) -> Timer:
        """The one with that text."""

    def timer_at(self, text: str) -> float | None:
        return self.timers.at(self.timer(text))

    def fires(self, text: str) -> Made:
        """Waits until that timer is due and lets it fire."""
        timer, at_s = self.timer(text), self.timer_at(text)
        assert at_s is not None, f"{timer} is not set, only {self.timers.items()}"
        self.now_s = max(self.now_s, at_s)
        return self.hears(TimerFired(timer=timer))
