"""Who sends most waits for themselves, however many connections they have and whatever their bytes cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpunion.coordinator.requests.turns import TURN_S, Turns


@dataclass(eq=False)
class Sender:
    belongs_to: str
    clock: list[float]
    portions: int = 1
    costs_s: float = TURN_S
    breaks: bool = False
    given_up: bool = False
    read_at_s: list[float] = field(default_factory=list)

    def read_some(self) -> bool:
        if self.breaks:
            raise ValueError("nonsense")
        self.clock[0] += self.costs_s
        self.read_at_s.append(self.clock[0])
        self.portions -= 1
        return self.portions > 0

    def give_up(self) -> None:
        self.given_up = True


@dataclass
class Loop:
    clock: list[float] = field(default_factory=lambda: [0.0])
    ready: list[Callable[[], None]] = field(default_factory=list)
    turns: Turns = field(init=False)
    rounds: int = 0

    def __post_init__(self) -> None:
        self.turns = Turns(self.ready.append, lambda: self.clock[0])

    def sender(self, name: str, **more: object) -> Sender:
        return Sender(name, self.clock, **more)  # type: ignore[arg-type]

    def once(self) -> None:
        ready, self.ready[:] = list(self.ready), []
        self.rounds += 1
        for call in ready:
            call()

    def until_nobody_waits(self) -> None:
        while self.ready:
            self.once()


def test_a_thousand_connections_of_one_sender_cost_another_one_turn() -> None:
    loop = Loop()
    for _ in range(1000):
        loop.turns.wants(loop.sender("flood", portions=100))
    loop.once()
    other = loop.sender("other", costs_s=0.0)
    loop.turns.wants(other)
    loop.once()
    loop.once()
    assert other.read_at_s
    assert other.read_at_s[0] <= 3 * TURN_S


def test_everything_else_has_its_turn_after_a_few_milliseconds() -> None:
    loop = Loop()
    loop.turns.wants(loop.sender("flood", portions=50))
    loop.until_nobody_waits()
    assert loop.rounds == 50


def test_who_costs_nothing_is_read_to_the_end_at_once() -> None:
    loop = Loop()
    senders = [loop.sender(f"n{number}", portions=20, costs_s=0.0) for number in range(20)]
    for sender in senders:
        loop.turns.wants(sender)
    loop.once()
    assert all(len(sender.read_at_s) == 20 for sender in senders)
    assert not loop.ready


def test_senders_are_read_one_after_another() -> None:
    loop = Loop()
    one, two = loop.sender("one", portions=3), loop.sender("two", portions=3)
    loop.turns.wants(one)
    loop.turns.wants(two)
    loop.until_nobody_waits()
    assert sorted(one.read_at_s + two.read_at_s)[::2] == one.read_at_s


def test_who_is_gone_is_not_read_any_more() -> None:
    loop = Loop()
    gone, stays = loop.sender("one"), loop.sender("one")
    loop.turns.wants(gone)
    loop.turns.wants(gone)
    loop.turns.wants(stays)
    loop.turns.gone(gone)
    loop.turns.gone(gone)
    loop.until_nobody_waits()
    assert (gone.read_at_s, len(stays.read_at_s)) == ([], 1)


def test_one_whose_bytes_cannot_be_looked_at_is_given_up_and_keeps_nobody_waiting() -> None:
    loop = Loop()
    broken, other = loop.sender("broken", breaks=True), loop.sender("other")
    loop.turns.wants(broken)
    loop.turns.wants(other)
    loop.until_nobody_waits()
    assert broken.given_up
    assert other.read_at_s
