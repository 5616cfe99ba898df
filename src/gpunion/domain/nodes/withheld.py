"""One GPU of a machine that is not lent although the rest of the machine is.

The same value stands on the agent's disk (in its own time) and in the coordinator's record of the node (in
the coordinator's): what an owner said of one GPU means the same to both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpunion.text import duration_in_words


class GpuPhase(StrEnum):
    PAUSED = "paused"  # its guest may stay, nobody new comes
    RECLAIMING = "reclaiming"  # notice is running
    RECLAIMED = "reclaimed"  # nobody of ours is on it


class HoldCause(StrEnum):
    """Whose word it is, which decides whose word ends it."""

    TERMS = "terms"  # their terms say so at the moment; ends when they do not
    OWN_WORK = "own_work"  # the owner's own process was seen on it; ends when that is gone
    OWNER = "owner"  # they said so; ends when they say so
    SICK = "sick"  # it is broken; ends when the owner says of this very GPU that it is not


# A weightier cause is not taken over by a lighter one: a sick GPU is not lent because a process ended.
_WEIGHT = {HoldCause.TERMS: 0, HoldCause.OWN_WORK: 1, HoldCause.OWNER: 2, HoldCause.SICK: 3}


def weightier(one: HoldCause, other: HoldCause) -> HoldCause:
    return max(one, other, key=_WEIGHT.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldGpu:
    index: int
    phase: GpuPhase
    cause: HoldCause = HoldCause.OWNER
    detail: str = ""  # what was seen: the owner's process, the fault
    asked_s: float = 0.0
    deadline_s: float | None = None
    until_s: float | None = None  # kept free until then, as its owner's own program has just ended

    def because(self, now_s: float | None = None) -> str:
        """In words, for people who wait for it. `now_s`: to say for how long, where that is known."""
        match self.cause:
            case HoldCause.TERMS:
                said = self.detail or "its owner's terms withhold it"
            case HoldCause.OWN_WORK:
                said = "its owner is computing on it"
                if self.until_s is not None:
                    left_s = None if now_s is None else round(max(0.0, self.until_s - now_s))
                    left = "" if left_s is None else f" for {duration_in_words(left_s)} more"
                    said = f"its owner's own program has ended; it is kept free{left}, as another may follow"
            case HoldCause.SICK:
                said = f"it is out of order ({self.detail or 'no detail given'})"
            case HoldCause.OWNER if self.phase is GpuPhase.PAUSED:
                said = "its owner takes no new guests on it"
            case HoldCause.OWNER:
                said = "its owner has it"
        return f"GPU {self.index}: {said}"


def withheld_of(gpus: Iterable[WithheldGpu], index: int) -> WithheldGpu | None:
    return next((gpu for gpu in gpus if gpu.index == index), None)


def with_gpu(gpus: Iterable[WithheldGpu], changed: WithheldGpu) -> tuple[WithheldGpu, ...]:
    others = [gpu for gpu in gpus if gpu.index != changed.index]
    return tuple(sorted([*others, changed], key=lambda gpu: gpu.index))


def without_gpus(gpus: Iterable[WithheldGpu], indices: Iterable[int]) -> tuple[WithheldGpu, ...]:
    gone = set(indices)
    return tuple(gpu for gpu in gpus if gpu.index not in gone)


def after_resume(gpus: Iterable[WithheldGpu]) -> tuple[WithheldGpu, ...]:
    """What stays withheld when an owner lends the whole machine: what their word did not take does not end
    with it."""
    return tuple(gpu for gpu in gpus if gpu.cause is not HoldCause.OWNER)


def earliest_deadline_s(gpus: Iterable[WithheldGpu], indices: Iterable[int]) -> float | None:
    """When the first of these GPUs must be empty; None where nobody waits for one."""
    held = set(indices)
    waits = (gpu.deadline_s for gpu in gpus if gpu.index in held and gpu.phase is GpuPhase.RECLAIMING)
    return min((at_s for at_s in waits if at_s is not None), default=None)
