"""What of a session is kept when its machine is wanted back: four levels, the best that can be had."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """From the best to the least. A checkpoint's tier is another word: `variables` and `files` are of tier
    `app`, `whole` of tier `system`."""

    PARK = "park"  # it stays where it is and stands still
    WHOLE = "whole"  # all of its memory goes along
    VARIABLES = "variables"  # of its kernels, as far as they can be saved
    FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What there is for a session where it is."""

    dumped: bool  # it could be dumped here and brought back on another machine
    why_not_whole: str = ""  # what its guest sees in itself that a dump would refuse
    saves_variables: bool = False  # its own program can
    starting: bool = False  # nobody knows yet what it can


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How it would be kept, were it moved now; and why no better."""

    level: Level
    why_not: str = ""


NO_DUMP = "its machine, or every other one, cannot move a whole guest"
NO_CLOUDPICKLE = "its environment has no cloudpickle"
STARTING = "it is starting; what was saved last is kept"


def reach_of(means: Means) -> Reach:
    if means.dumped and not means.why_not_whole:
        return Reach(level=Level.WHOLE)
    why_not = means.why_not_whole if means.dumped else NO_DUMP
    if means.saves_variables:
        return Reach(level=Level.VARIABLES, why_not=why_not)
    return Reach(level=Level.FILES, why_not=STARTING if means.starting else NO_CLOUDPICKLE)
