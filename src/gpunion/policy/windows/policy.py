"""All answers about windows in one value: what a campus runs with, and what a report leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.policy.windows.clearing import Clearing, Exact
from gpunion.policy.windows.scoring import FAIR, Weights
from gpunion.policy.windows.turns import TurnBounds

EXACT: Clearing = Exact()
USUAL_BOUNDS = TurnBounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPolicy:
    name: str = "windows-fair"
    weights: Weights = FAIR
    clearing: Clearing = EXACT
    bounds: TurnBounds = USUAL_BOUNDS
    gaps: bool = True  # before an owner's end, and on machines kept for others
    turns: bool = True  # a tenant whose turn is over may have to let others begin
    promises: bool = True  # to jobs that need several GPUs at once
    learned_memory: bool = True  # in place of what was declared, once enough has been seen
    calibration: bool = True  # who promises too much is believed less
