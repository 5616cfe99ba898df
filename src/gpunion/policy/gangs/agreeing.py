"""At which step the members of a gang save, and which of their saves belong together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from gpunion.domain.ids import NodeId

# What was last heard of a member is about one heartbeat old, and the order takes a moment to get there.
BEATS_AHEAD = 1.5
ORDER_S = 1.0
# Below this part of a step meanwhile nobody is taken to end one: waiting for another long step would cost a
# notice, and where all have ended it they save the next one together anyway.
STEP_UNLIKELY = 0.25


# What tells which saves of an epoch belong together: the step they are of, or, of programs that tell none,
# the moment at which all members were asked. A later mark is greater.
Mark = tuple[int, float]  # step, asked_s
# The same over several epochs: after going back, a step is made and saved once more.
Round = tuple[int, int, float]  # epoch, step, asked_s


def mark(step: int, asked_s: float) -> Mark:
    """Members that count steps save the same one, whenever that is. Of those that count none nobody knows how
    far they are; but what all of them saved when they were asked at one moment is as much one state as their
    programs make it, and nothing else is."""
    return (step, 0.0) if step else (0, asked_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far one member is known to be, and how fast it goes."""

    step: int
    steps_per_s: float = 0.0


def save_step(members: Sequence[Reached], heartbeat_s: float) -> int:
    """The first step nobody has passed yet when the order arrives: each saves when it comes there."""
    ahead_s = _ahead_s(heartbeat_s)
    return max(one.step + _steps_made(one.steps_per_s * ahead_s) for one in members) + 1


def save_wait_s(members: Sequence[Reached], heartbeat_s: float) -> float:
    """How much longer a save takes a gang, since all have to come to the same step first: as long as the
    last of them is on its way there. Of whom no pace is known yet the order's own way is counted."""
    step = save_step(members, heartbeat_s)
    paced = [(step - one.step) / one.steps_per_s for one in members if one.steps_per_s > 0.0]
    return max(paced, default=_ahead_s(heartbeat_s))


def _ahead_s(heartbeat_s: float) -> float:
    return BEATS_AHEAD * heartbeat_s + ORDER_S


def _steps_made(expected: float) -> int:
    return 0 if expected < STEP_UNLIKELY else math.ceil(expected)


def interval_s(members: Iterable[tuple[NodeId, float]]) -> float:
    """How often all save, from how often each would, and where it is. Young's interval goes with one over
    the root of the hazard, and what drives one member out drives out all: the hazards add up. Members on one
    machine leave together, so that machine counts once."""
    shortest: dict[NodeId, float] = {}
    for node_id, alone_s in members:
        shortest[node_id] = min(alone_s, shortest.get(node_id, math.inf))
    hazards = sum(alone_s**-2.0 for alone_s in shortest.values() if alone_s > 0.0)
    return hazards**-0.5 if hazards > 0.0 else min(shortest.values())


def newest_unblamed(kept: Sequence[Collection[Round]], blamed: Sequence[Collection[Round]]) -> Round | None:
    """The newest round of saves that every member still has, and that no member could not go on from; None:
    there is none. What one of them cannot read is of no use to any, since all go on from one step."""
    shared = set(kept[0]) if kept else set()
    for rounds in kept[1:]:
        shared.intersection_update(rounds)
    return max(shared.difference(*blamed), default=None)


def newest_common(saved: Sequence[Collection[Mark]]) -> Mark | None:
    """The newest mark that every member has a save of; None: there is none."""
    shared = set(saved[0]) if saved else set()
    for marks in saved[1:]:
        shared.intersection_update(marks)
    return max(shared, default=None)
