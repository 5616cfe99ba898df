"""When machines are expected to be wanted back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fastapi import APIRouter

from gpunion.coordinator.api.access import Anybody, TheCampus
from gpunion.coordinator.api.problems import not_found
from gpunion.coordinator.services import Campus
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.lending import CalibrationBin
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.protocol.timers import LessonDue
from gpunion.engine.coordinator.learned_history import Memories
from gpunion.policy.hazard import calibration
from gpunion.policy.hazard.buckets import HOUR_S, WEEK_S
from gpunion.policy.hazard.outlook import Outlook, outlook
from gpunion.policy.hazard.signs import SignBook, book_of_signs
from gpunion.policy.learning import Learning
from gpunion.wire.v1 import convert, hazard

router = APIRouter(tags=["campus"])


@router.get("/hazard")
async def hazards(campus: TheCampus, _caller: Anybody) -> hazard.HazardList:
    memories, engine = campus.state.memories, campus.station.engine
    nodes = sorted(campus.state.nodes.values(), key=lambda node: node.id)
    here = [node for node in nodes if node.phase is not NodePhase.LEFT]
    return hazard.HazardList(
        learns=engine.policies.learning is not None,
        learned_at=_learned_at(memories),
        next_lesson_at=convert.shown_time_or_none(engine.timers.at(LessonDue())),
        horizon_h=calibration.HORIZON_S / HOUR_S,
        announced_share=memories.notices().announced_share,
        signs=_signs(memories),
        nodes=[_shown(node, _outlook(campus, node)) for node in here],
        calibration=_bins(calibration.pooled(one.calibration for one in memories.lendings.values())),
    )


@router.get("/nodes/{node_id}/hazard")
async def node_hazard(node_id: str, campus: TheCampus, _caller: Anybody) -> hazard.HazardDetail:
    node = campus.state.nodes.get(NodeId(node_id))
    if node is None:
        raise not_found(f"node {node_id[:64]}", "GET /api/v1/nodes lists the nodes there are")
    found = _outlook(campus, node)
    return hazard.HazardDetail(
        **dict(_shown(node, found)),
        departures_per_h=list(found.departures_per_h),
        learned_at=_learned_at(campus.state.memories),
        learns=campus.station.engine.policies.learning is not None,
    )


def _outlook(campus: Campus, node: Node) -> Outlook:
    """Without the signs of its owner: nobody is to read from it whether they are there."""
    memories = campus.state.memories
    learned = memories.hazard(campus.station.engine.policies.learning or Learning())
    return outlook(learned, replace(node, signs=None), memories.lendings, campus.clock.now_s())


def _shown(node: Node, found: Outlook) -> hazard.HazardOut:
    return hazard.HazardOut(
        node=node.id,
        phase=node.phase.value,
        based_on=found.answer.value,
        weeks_seen=found.lent_s / WEEK_S,
        departures_seen=found.departures,
        stays=[
            hazard.StayingOut(hours=one.horizon_s / HOUR_S, chance=one.chance, cautious=one.cautious)
            for one in found.stays
        ],
        expected_s=found.expected_s,
        calibration=_bins(found.calibration),
    )


def _signs(memories: Memories) -> list[hazard.SignsOut]:
    """Rounded: on a campus of two machines every digit more would tell when somebody came and went."""
    campus = memories.campus
    book = SignBook() if campus is None else book_of_signs(campus.signs, campus.signs_as_of_s)
    return [
        hazard.SignsOut(
            shown=[sign.value for sign in one.shown],
            departures=round(one.departures, 1),
            expected=round(one.expected, 1),
            factor=round(book.factor(one.shown), 1),
        )
        for one in book.records()
    ]


def _bins(bins: Iterable[CalibrationBin]) -> list[hazard.CalibrationOut]:
    return [
        hazard.CalibrationOut(
            forecasts=one.forecasts,
            foretold=one.foretold / one.forecasts,
            seen=one.departed / one.forecasts,
        )
        for one in bins
        if one.forecasts
    ]


def _learned_at(memories: Memories) -> str | None:
    return convert.shown_time_or_none(None if memories.campus is None else memories.campus.learned_s)
