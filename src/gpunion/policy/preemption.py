"""Who makes room for a job of a higher class that finds none?

Whoever loses least: what a victim costs is the cheapest way in which it can leave, as it was measured on its
machine, or what it did since its last save, whichever is less, and coming back, weighted with its GPUs and
class. Only a lower class ever makes room, so that nobody is driven out by whom they drove out; nobody is
disturbed again soon after a move, nor when they are nearly done, nor who cannot leave without a loss and was
not handed in as preemptible. A job of class high gets its room at once. For others it has to pay: a job that
has waited for a minute is worth a minute, since it is expected to wait as long again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.job import Priority
from gpunion.domain.jobs.migration import Way

# Where it has to pay, not before a job has waited this long: somebody may just be leaving.
WAITED_LEAST_S = 60.0
# After a move a job is left alone for this long, or for three times what moving it costs.
SETTLED_LEAST_S = 600.0
SETTLED_MOVES = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """One way in which a guest can leave. `free_s`: until its GPUs are free. `sent_s`: until what it left
    could be had elsewhere. `lost_s`: of its work. `back_s`: until it works again, once there is a place."""

    way: Way
    free_s: float
    back_s: float
    sent_s: float = 0.0
    lost_s: float = 0.0
    proven: bool = False  # this guest has left, or was saved, in this way before

    @property
    def leaves_s(self) -> float:
        return self.free_s + self.sent_s + self.lost_s

    @property
    def cost_s(self) -> float:
        return self.leaves_s + self.back_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A run that may have to go. `settled_s`: since it last moved; None: it never did."""

    run_id: RunId
    priority: int
    weight: float
    ways: tuple[Leaving, ...]  # those that work; none: it cannot leave without a loss
    unsaved_s: float
    remaining_s: float | None
    settled_s: float | None
    started_s: float

    @property
    def leaving(self) -> Leaving | None:
        """The cheapest way; one that can be parked is not tried in ways of which nobody knows that they work.
        Before one is parked whose program is known to save itself, and sooner than what it has to lose took,
        that is asked to: what stands still in memory is saved by nobody."""
        parks = any(one.way is Way.PARK for one in self.ways)
        ways = [one for one in self.ways if one.proven or one.way is Way.PARK] if parks else self.ways
        cheapest = min(ways, key=lambda one: (one.cost_s, one.way), default=None)
        if cheapest is None or cheapest.way is not Way.PARK:
            return cheapest
        saves = (one for one in self.ways if one.way is Way.SAVE and one.proven)
        return next((one for one in saves if one.free_s < self.unsaved_s), cheapest)

    @property
    def loss_s(self) -> float:
        leaving = self.leaving
        return 0.0 if leaving is None else min(leaving.leaves_s, self.unsaved_s) + leaving.back_s

    @property
    def cost(self) -> float:
        return self.weight * self.loss_s

    @property
    def left_alone(self) -> bool:
        """It cannot leave, has just moved, or is done sooner than it could be moved."""
        leaving = self.leaving
        if leaving is None or (self.remaining_s is not None and self.remaining_s <= leaving.cost_s):
            return True
        quiet_s = max(SETTLED_LEAST_S, SETTLED_MOVES * leaving.cost_s)
        return self.settled_s is not None and self.settled_s < quiet_s

    @property
    def parks(self) -> bool:
        return self.leaving is not None and self.leaving.way is Way.PARK

    def without_parking(self) -> Candidate:
        return replace(self, ways=tuple(one for one in self.ways if one.way is not Way.PARK))


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The runs of one node, and whether the job would fit there without some that are gone, beside others
    that stand in its memory."""

    node_id: NodeId
    candidates: Sequence[Candidate]
    fits_without: Callable[[frozenset[RunId], frozenset[RunId]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    node_id: NodeId
    victims: tuple[Candidate, ...]

    @property
    def cost(self) -> float:
        return sum(victim.cost for victim in self.victims)

    @property
    def rank(self) -> tuple[int, float, int, float, str]:
        """The lowest class, the least cost, the fewest, those who began last."""
        highest = max(victim.priority for victim in self.victims)
        earliest_s = min(victim.started_s for victim in self.victims)
        return (highest, self.cost, len(self.victims), -earliest_s, self.node_id)


class Preemption(Protocol):
    def at_once(self, priority: int) -> bool:
        """Whether a job of this class is given room the moment it finds none."""
        ...

    def room(self, crowds: Iterable[Crowd], *, priority: int, weight: float, waited_s: float) -> Room | None:
        """Who has to go for a job of this class and weight that has waited so long; None: nobody."""
        ...


class NobodyMakesRoom:
    def at_once(self, priority: int) -> bool:
        return False

    def room(self, crowds: Iterable[Crowd], *, priority: int, weight: float, waited_s: float) -> Room | None:
        return None


class ByLastCheckpoint:
    """Where it pays."""

    def at_once(self, priority: int) -> bool:
        return False

    def room(self, crowds: Iterable[Crowd], *, priority: int, weight: float, waited_s: float) -> Room | None:
        if waited_s < WAITED_LEAST_S:
            return None
        best = _least(crowds, priority)
        return best if best is not None and weight * waited_s > best.cost else None


class AtOnce:
    """For class high at once, whatever it costs; for the others where it pays."""

    def at_once(self, priority: int) -> bool:
        return priority >= Priority.HIGH

    def room(self, crowds: Iterable[Crowd], *, priority: int, weight: float, waited_s: float) -> Room | None:
        if self.at_once(priority):
            return _least(crowds, priority)
        return ByLastCheckpoint().room(crowds, priority=priority, weight=weight, waited_s=waited_s)


# By the word that an operator writes.
PREEMPTION: dict[str, Preemption] = {
    "at-once": AtOnce(),
    "when-it-pays": ByLastCheckpoint(),
    "off": NobodyMakesRoom(),
}


def _least(crowds: Iterable[Crowd], priority: int) -> Room | None:
    found = (_victims(crowd, priority) for crowd in crowds)
    return min((room for room in found if room is not None), key=lambda room: room.rank, default=None)


def _victims(crowd: Crowd, priority: int) -> Room | None:
    """Where those who stand in memory would leave too little of it, nobody is parked."""
    room = _chosen(crowd, crowd.candidates, priority)
    if room is not None or not any(one.parks for one in crowd.candidates):
        return room
    return _chosen(crowd, [one.without_parking() for one in crowd.candidates], priority)


def _chosen(crowd: Crowd, candidates: Sequence[Candidate], priority: int) -> Room | None:
    able = [one for one in candidates if one.priority < priority and not one.left_alone]
    able.sort(key=lambda one: (one.priority, one.cost, -one.started_s, one.run_id))
    chosen: list[Candidate] = []
    for one in able:
        chosen.append(one)
        if _fits(crowd, chosen):
            break
    else:
        return None
    for one in sorted(chosen, key=lambda one: -one.cost):
        rest = [other for other in chosen if other is not one]
        if rest and _fits(crowd, rest):
            chosen = rest  # it was asked before a larger one that alone is enough
    return Room(node_id=crowd.node_id, victims=tuple(chosen))


def _fits(crowd: Crowd, chosen: Sequence[Candidate]) -> bool:
    gone = frozenset(one.run_id for one in chosen if not one.parks)
    return crowd.fits_without(gone, frozenset(one.run_id for one in chosen if one.parks))
