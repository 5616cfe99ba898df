"""A faulty driver keeps no machine out of the campus: what cannot be is told as what is nearest."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gpunion.agent.link.plausible import plausible
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import Gpu
from gpunion.wire.bounds import CHECK
from tests.builders import facts
from tests.builders.values import some_gpus


def test_what_can_be_is_told_as_it_is() -> None:
    honest = facts(gpus=2)
    with capture_logs() as lines:
        assert plausible(honest) is honest
    assert lines == []


@pytest.mark.parametrize(
    ("gpu", "field"),
    [
        ({"speed": 0.0}, "Gpu.speed"),
        ({"speed": math.nan}, "Gpu.speed"),
        ({"speed": 1.7e308}, "Gpu.speed"),
        ({"memory_bytes": -1}, "Gpu.memory_bytes"),
        ({"model": "x" * 5000}, "Gpu.model"),
        ({"model": "card\x1b[2J"}, "Gpu.model"),
        ({"index": -1}, "Gpu.index"),
    ],
)
def test_what_a_driver_cannot_have_seen_is_brought_into_range_and_said(
    gpu: dict[str, object], field: str
) -> None:
    (card,) = some_gpus()
    with capture_logs() as lines:
        told = plausible(facts(gpus=(replace(card, **gpu),)))  # type: ignore[arg-type]
    CHECK[type(told)](told)
    assert len(told.capacity.gpus) == 1
    assert field in lines[0]["trouble"]


def test_of_two_gpus_with_one_number_the_first_is_told() -> None:
    one, other = Gpu(index=0, model="a", memory_bytes=1), Gpu(index=0, model="b", memory_bytes=1)
    assert plausible(facts(gpus=(one, other))).capacity.gpus == (one,)


def test_an_owners_terms_stay_whole_on_the_machine_whatever_is_told_of_them() -> None:
    terms = Terms(deny_labs=tuple(f"lab-{number}" for number in range(2000)))
    assert plausible(facts(speed=0.0, terms=terms)).terms is terms
