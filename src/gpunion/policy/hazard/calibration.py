"""Whether 20 % means one time in five: forecasts of a running campus, kept until their outcome is known.

A node that is lent has at most one forecast open, made when a lesson was drawn and settled by its departure
or by the horizon, whichever comes first; so forecasts of one node never overlap, and none is judged with
what was learned after it was made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpunion.domain.nodes.lending import CalibrationBin, Foretold, Lending

HORIZON_S = 4 * 3600.0
BINS = 10


def settled_by_departure(lending: Lending, at_s: float) -> Lending:
    foretold = lending.foretold
    return lending if foretold is None else _settled(lending, foretold, at_s <= foretold.made_s + HORIZON_S)


def settled_by_time(lending: Lending, now_s: float) -> Lending:
    """Asked of a node that is still lent."""
    foretold = lending.foretold
    if foretold is None or now_s < foretold.made_s + HORIZON_S:
        return lending
    return _settled(lending, foretold, False)


def pooled(of_nodes: Iterable[tuple[CalibrationBin, ...]]) -> tuple[CalibrationBin, ...]:
    total = [CalibrationBin()] * BINS
    for bins in of_nodes:
        for number, one in enumerate(bins):
            total[number] = _sum(total[number], one)
    return tuple(total)


def _settled(lending: Lending, foretold: Foretold, departed: bool) -> Lending:
    bins = list(lending.calibration or (CalibrationBin(),) * BINS)
    number = min(BINS - 1, int(foretold.chance * BINS))
    one = CalibrationBin(forecasts=1, foretold=foretold.chance, departed=int(departed))
    bins[number] = _sum(bins[number], one)
    return replace(lending, foretold=None, calibration=tuple(bins))


def _sum(one: CalibrationBin, other: CalibrationBin) -> CalibrationBin:
    return CalibrationBin(
        forecasts=one.forecasts + other.forecasts,
        foretold=one.foretold + other.foretold,
        departed=one.departed + other.departed,
    )
