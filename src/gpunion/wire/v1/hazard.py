"""When machines are expected to be wanted back, and how well that was foretold so far."""

from __future__ import annotations

from gpunion.wire.v1.strict import Answer


class StayingOut(Answer):
    """The chance that a machine is still lent after so many hours; `cautious` is what admission goes by."""

    hours: float
    chance: float
    cautious: float


class CalibrationOut(Answer):
    """Forecasts of a like chance: `foretold` is their mean, `seen` how often the machine left in time."""

    forecasts: int
    foretold: float
    seen: float


class HazardOut(Answer):
    """`based_on`: own (its own week), fleet (everybody's week at its own rate), flat, constant."""

    node: str
    phase: str
    based_on: str
    weeks_seen: float
    departures_seen: int
    stays: list[StayingOut]
    expected_s: float | None
    calibration: list[CalibrationOut]


class HazardDetail(HazardOut):
    """`departures_per_h`: by hour of the week, from Monday 00:00 by the campus's clock."""

    departures_per_h: list[float]
    learned_at: str | None
    learns: bool


class SignsOut(Answer):
    """What it was worth, on all machines together, that exactly these signs of an owner were shown (`[]`:
    none of them, where an agent tells at all): departures, those expected by hour and age, and what a rate is
    multiplied with. Counts of long ago fade."""

    shown: list[str]
    departures: float
    expected: float
    factor: float


class HazardList(Answer):
    """`learns` is false where the coordinator's policies decide without a memory."""

    learns: bool
    learned_at: str | None
    next_lesson_at: str | None
    horizon_h: float
    announced_share: float
    signs: list[SignsOut]
    nodes: list[HazardOut]
    calibration: list[CalibrationOut]
