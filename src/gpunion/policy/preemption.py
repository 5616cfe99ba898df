"""Who makes room for a job of a higher class that finds none?

Whoever loses least: what a victim costs is being saved and brought back, or what it did since its last save
and being brought back, whichever is less, weighted with its GPUs and class. Only a lower class ever makes
room, so that nobody is driven out by whom they drove out; nobody is disturbed again soon after a move; and a
job that has waited for a minute is worth a minute: it is expected to wait as long again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpunion.domain.ids import NodeId, RunId

# Not before it has waited this long: somebody may just be leaving.
WAITED_LEAST_S = 60.0
# After a move a job is left alone for this long, or for three times what moving it costs.
SETTLED_LEAST_S = 600.0
SETTLED_MOVES = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A run that may have to go. `settled_s`: since it last moved; None: it never did."""

    run_id: RunId
    priority: int
    weight: float
    save_s: float
    restore_s: float
    unsaved_s: float
    remaining_s: float | None
    settled_s: float | None
    started_s: float

    @property
    def loss_s(self) -> float:
        return min(self.save_s, self.unsaved_s) + self.restore_s

    @property
    def cost(self) -> float:
        return self.weight * self.loss_s

    @property
    def left_alone(self) -> bool:
        """It has just moved, or is done sooner than it could be moved."""
        if self.remaining_s is not None and self.remaining_s <= self.save_s + self.restore_s:
            return True
        quiet_s = max(SETTLED_LEAST_S, SETTLED_MOVES * (self.save_s + self.restore_s))
        return self.settled_s is not None and self.settled_s < quiet_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The runs of one node, and whether the job would fit there without some of them."""

    node_id: NodeId
    candidates: Sequence[Candidate]
    fits_without: Callable[[frozenset[RunId]], bool]


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
    def room(self, crowds: Iterable[Crowd], *, priority: int, weight: float, waited_s: float) -> Room | None:
        """Who has to go for a job of this class and weight that has waited so long; None: nobody."""
        ...


class NobodyMakesRoom:
    def room(self, crowds: Iterable[Crowd], *, priority: int, weight: float, waited_s: float) -> Room | None:
        return None


class ByLastCheckpoint:
    def room(self, crowds: Iterable[Crowd], *, priority: int, weight: float, waited_s: float) -> Room | None:
        if waited_s < WAITED_LEAST_S:
            return None
        found = (_victims(crowd, priority) for crowd in crowds)
        best = min((room for room in found if room is not None), key=lambda room: room.rank, default=None)
        return best if best is not None and weight * waited_s > best.cost else None


def _victims(crowd: Crowd, priority: int) -> Room | None:
    able = [one for one in crowd.candidates if one.priority < priority and not one.left_alone]
    able.sort(key=lambda one: (one.priority, one.cost, -one.started_s, one.run_id))
    chosen: list[Candidate] = []
    for one in able:
        chosen.append(one)
        if crowd.fits_without(_ids(chosen)):
            break
    else:
        return None
    for one in sorted(chosen, key=lambda one: -one.cost):
        rest = [other for other in chosen if other is not one]
        if rest and crowd.fits_without(_ids(rest)):
            chosen = rest  # it was asked before a larger one that alone is enough
    return Room(node_id=crowd.node_id, victims=tuple(chosen))


def _ids(candidates: Iterable[Candidate]) -> frozenset[RunId]:
    return frozenset(one.run_id for one in candidates)
