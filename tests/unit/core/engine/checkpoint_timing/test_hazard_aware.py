"""When the next save is due, from a hazard by the hour, the notices seen and the company on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import pytest

from gpunion.domain.jobs.job import Job, SaveCost
from gpunion.domain.nodes.node import Node
from gpunion.policy.checkpoint_timing.hazard_aware import HazardAware
from gpunion.policy.checkpoint_timing.interval import MOST_INTERVAL_S
from gpunion.policy.checkpoint_timing.notices import NoticeBook
from tests.builders import a_job, a_node, facts

HOUR_S = 3600.0
MIB = 1024**2


@dataclass(frozen=True)
class Rises:
    """Nothing until nine, then one departure an hour."""

    at_s: float = 9 * HOUR_S

    def rate_per_s(self, node: Node, now_s: float) -> float:
        return 1e-9 if now_s < self.at_s else 1 / HOUR_S


def saving(id: str = "job", stall_s: float = 2.0, ship_mib: int = 100) -> Job:
    return a_job(id, cost=SaveCost(stall_s=stall_s, ship_bytes=ship_mib * MIB))


def test_a_constant_hazard_gives_youngs_interval():
    blind = HazardAware(hazard=Rises(at_s=0.0), counts_notice=False, coupled=False)
    assert blind.interval_s(saving(), a_node(), 0.0) == pytest.approx(sqrt(2 * 2.0 * HOUR_S))


def test_a_save_is_put_off_to_just_after_the_owners_come():
    blind = HazardAware(hazard=Rises(), counts_notice=False, coupled=False)
    calm_s = blind.interval_s(saving(), a_node(), 5 * HOUR_S)
    assert 4 * HOUR_S < calm_s < 4 * HOUR_S + sqrt(2 * 2.0 * HOUR_S) + 900.0
    assert blind.interval_s(saving(), a_node(), 0.0) == MOST_INTERVAL_S


def test_departures_that_are_announced_in_time_make_saving_rarer():
    book = NoticeBook()
    for _ in range(90):
        book = book.announced(600.0)
    trusting = HazardAware(hazard=Rises(at_s=0.0), notices=book, notice_credit=1.0)
    told = HazardAware(hazard=Rises(at_s=0.0), notices=book)
    blind = HazardAware(hazard=Rises(at_s=0.0), notices=book, counts_notice=False)
    every_s = [policy.interval_s(saving(), a_node(), 0.0) for policy in (blind, told, trusting)]
    assert every_s == sorted(every_s)
    assert every_s[2] > 2 * every_s[0]
    assert every_s[1] > 1.2 * every_s[0]


def test_a_state_too_big_for_any_notice_is_saved_as_if_nobody_announced_anything():
    book = NoticeBook()
    for _ in range(90):
        book = book.announced(30.0)
    told = HazardAware(hazard=Rises(at_s=0.0), notices=book, coupled=False)
    blind = HazardAware(hazard=Rises(at_s=0.0), counts_notice=False, coupled=False)
    huge = saving(ship_mib=100_000)
    assert told.interval_s(huge, a_node(), 0.0) == blind.interval_s(huge, a_node(), 0.0)


def test_company_on_a_thin_wire_makes_everybody_save_less_often():
    thin = a_node(of=facts(uplink_bps=10e6))
    coupled = HazardAware(hazard=Rises(at_s=0.0), counts_notice=False)
    alone_s = coupled.interval_s(saving(), thin, 0.0)
    beside_s = coupled.interval_s(saving(), thin, 0.0, [saving("other", ship_mib=400)])
    assert beside_s > alone_s
    uncoupled = HazardAware(hazard=Rises(at_s=0.0), counts_notice=False, coupled=False)
    assert uncoupled.interval_s(saving(), thin, 0.0) < alone_s


def test_with_no_wire_at_all_it_is_saved_as_rarely_as_may_be():
    cut = a_node(of=facts(uplink_bps=0.0))
    assert HazardAware(hazard=Rises(at_s=0.0)).interval_s(saving(), cut, 0.0) == MOST_INTERVAL_S
