"""What is expected of one node, for people: how likely it stays, when it is wanted back, and how we know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.lending import CalibrationBin, Lending
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.policy.hazard.buckets import HOUR_S, WEEK_HOURS, WEEK_S
from gpunion.policy.hazard.profile import Answer
from gpunion.policy.hazard.weekly import WeeklyHazard

HORIZONS_S = (1 * HOUR_S, 4 * HOUR_S, 12 * HOUR_S)
# The mean time to the next departure is added up this far, in steps that grow, and then by the mean rate.
_SUMMED_S = 4 * WEEK_S
_FIRST_STEP_S, _STEP_GROWTH = HOUR_S / 4, 1.1
_CERTAIN = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Staying:
    """`cautious`: with the rate we are 80 % sure is not exceeded."""

    horizon_s: float
    chance: float
    cautious: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """`stays` is empty and `expected_s` None where the node is not lent right now."""

    node_id: NodeId
    answer: Answer
    lent_s: float
    departures: int
    stays: tuple[Staying, ...]
    expected_s: float | None
    departures_per_h: tuple[float, ...]  # by hour of the week, from Monday 00:00
    calibration: tuple[CalibrationBin, ...]


def outlook(hazard: WeeklyHazard, node: Node, lendings: Mapping[NodeId, Lending], now_s: float) -> Outlook:
    book, lending = hazard.book, lendings.get(node.id)
    profile, history = book.profile(node.id), book.history(node.id)
    lent = node.phase in (NodePhase.SHARING, NodePhase.PAUSED)
    stays = tuple(
        Staying(
            horizon_s=horizon_s,
            chance=hazard.survival(node, now_s, horizon_s),
            cautious=hazard.lower_survival(node, now_s, horizon_s),
        )
        for horizon_s in HORIZONS_S
    )
    return Outlook(
        node_id=node.id,
        answer=profile.answer,
        lent_s=history.ever_lent_s,
        departures=history.ever_departures,
        stays=stays if lent else (),
        expected_s=expected_s(hazard, node, now_s) if lent else None,
        departures_per_h=tuple(rate * HOUR_S for rate in profile.rate_per_s),
        calibration=() if lending is None else lending.calibration,
    )


def expected_s(hazard: WeeklyHazard, node: Node, now_s: float) -> float:
    """The mean time to the next departure: survival, added up over all time to come."""
    total_s, stays, at_s, step_s = 0.0, 1.0, 0.0, _FIRST_STEP_S
    while at_s < _SUMMED_S and stays > _CERTAIN:
        later = hazard.survival(node, now_s, at_s + step_s)
        total_s += step_s * (stays + later) / 2
        stays, at_s = later, at_s + step_s
        step_s *= _STEP_GROWTH
    rates = hazard.book.profile(node.id).rate_per_s
    return total_s + stays * WEEK_HOURS / sum(rates)
