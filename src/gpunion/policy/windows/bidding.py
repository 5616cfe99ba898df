"""What could a waiting job do in a window? At most four pieces, each of which ends before the window does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, inf, log, sqrt

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import SaveCost
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.jobs.window import VARIANTS_MOST, Variant, Window
from gpunion.policy.windows.sizing import GUARD_S, STEPS_MOST, Sizing, memory_bytes, shortest_s, sizing_of
from gpunion.policy.windows.turns import TurnBounds, turn_s

# Beside the longest piece; the rest of the window is offered to others.
_SHARES = (0.5, 0.25)


@dataclass(frozen=True, kw_only=True)
class Bidder:
    """A job that waits, or a tenant whose turn is over: all that the policy needs to know of it."""

    job_id: JobId
    gpus: int = 1
    profile: Profile = field(default_factory=Profile)
    cost: SaveCost = field(default_factory=SaveCost)
    declared_bytes: int = 0  # of memory on each GPU
    learned: bool = True  # what it was seen to need counts, once enough has been seen
    safe_every: int = 1  # of its steps it can stop after each such one
    wanted_s: float | None = None  # it takes no window shorter than this
    longest_s: float | None = None  # and bids for no longer piece
    left_s: float | None = None  # of its work, at reference speed
    waited_s: float = 0.0  # since it last began to wait
    served_s: float = 0.0  # GPUs it has had so far, times how long
    behind: float = 0.0  # the line to its deadline, in [0, 1]
    standing: float = 0.0  # of its account: reference GPU-seconds had lately
    rho: float = 1.0  # how far what it says is believed
    priority: int = 1
    warm: frozenset[NodeId] = frozenset()  # where its state lies, or where it was last
    only: frozenset[int] | None = None  # of the windows those it may come to; None: any
    incumbent: int | None = None  # the window that it has now

    @cached_property
    def sizing(self) -> Sizing:
        return sizing_of(self.profile, self.cost)

    @cached_property
    def vram_bytes(self) -> int:
        return memory_bytes(self.profile, self.declared_bytes, learned=self.learned)

    @cached_property
    def shortest_s(self) -> float:
        return shortest_s(self.sizing, self.wanted_s)

    @cached_property
    def least_s(self) -> float:
        """In a window shorter than this it surely stays silent. Who is nearly done needs little."""
        return self.shortest_s if self.left_s is None else min(self.shortest_s, self.sizing.overhead_s)


def variants(bidder: Bidder, index: int, window: Window, bounds: TurnBounds) -> tuple[Variant, ...]:
    """None: it stays silent. Of one that is there already coming up costs nothing."""
    begun = bidder.incumbent == index
    if bidder.incumbent is not None and not begun:
        return ()
    if not begun and bidder.only is not None and index not in bidder.only:
        return ()
    if len(window.gpus) < bidder.gpus or window.vram_bytes < bidder.vram_bytes:
        return ()
    found: list[Variant] = []
    for length_s in _lengths_s(bidder, window, bounds):
        variant = _piece(bidder, index, window, length_s, begun)
        if variant is not None and variant not in found:
            found.append(variant)
        if variant is not None and variant.finishes and len(found) == 1:
            break  # it needs no more, and a shorter piece would only make it come again
    return tuple(found[:VARIANTS_MOST])


def _lengths_s(bidder: Bidder, window: Window, bounds: TurnBounds) -> Iterator[float]:
    whole_s = turn_s(bidder.sizing, bounds) if window.length_s is None else window.length_s
    longest_s = min(whole_s, inf if bidder.longest_s is None else bidder.longest_s)
    yield longest_s
    for share in _SHARES:
        yield share * longest_s
    best_s = _best_s(bidder.sizing, window.stays, whole_s)
    if best_s < longest_s:
        yield best_s


def _best_s(sizing: Sizing, stays: float, whole_s: float) -> float:
    """`sqrt(2 overhead / rate)`, as between two saves: longer pieces lose more to an owner who comes back."""
    if not 0 < stays < 1 or whole_s <= 0:
        return inf
    rate_per_s = -log(stays) / whole_s
    return sqrt(2 * sizing.overhead_s / rate_per_s)


def _piece(bidder: Bidder, index: int, window: Window, length_s: float, begun: bool) -> Variant | None:
    sizing, speed = bidder.sizing, max(window.speed, 1e-6)
    room_s = sizing.room_s(length_s, begun=begun)
    if room_s <= 0:
        return None
    if sizing.step_s > 0:
        steps, useful_s, taken_s, finishes = _by_steps(bidder, length_s, speed, begun)
        if steps <= 0:
            return None
    else:
        left_s = inf if bidder.left_s is None else bidder.left_s / speed
        steps, useful_s, finishes = 0, min(room_s, left_s), left_s <= room_s
        taken_s = length_s - room_s + useful_s
    if not finishes and not begun and length_s < bidder.shortest_s:
        return None  # it would mostly come and go
    return Variant(
        job_id=bidder.job_id,
        window=index,
        steps=steps,
        useful_s=useful_s,
        length_s=taken_s,
        vram_bytes=bidder.vram_bytes,
        finishes=finishes,
    )


def _by_steps(bidder: Bidder, length_s: float, speed: float, begun: bool) -> tuple[int, float, float, bool]:
    sizing = bidder.sizing
    steps = sizing.steps_within(length_s, speed, bidder.safe_every, begun=begun)
    finishes = False
    if bidder.left_s is not None:
        to_do = _to_do(bidder.left_s, sizing)
        fits = to_do <= steps or sizing.foretold_s(to_do, speed, begun=begun) <= length_s
        steps, finishes = (to_do, True) if fits else (steps, False)
    return (
        steps,
        steps * sizing.mean_s / speed,
        max(GUARD_S, sizing.foretold_s(steps, speed, begun=begun)),
        finishes,
    )


def _to_do(left_s: float, sizing: Sizing) -> int:
    """Clamped before it is made whole: a mean that is next to nothing makes it more than any integer."""
    return max(1, ceil(min(STEPS_MOST, left_s / sizing.mean_s))) if sizing.mean_s > 0 else STEPS_MOST
