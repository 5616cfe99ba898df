"""The figures of docs/hazard.md, on the public traces where they lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.lab.traces.formats import FORMATS, format_of, read_records
from gpunion.lab.traces.lending import read_lending
from gpunion.lab.traces.rows import TraceError
from gpunion.lab.traces.study import Scores, plan_score, score
from gpunion.policy.hazard.profile import Answer

TRACES = Path(__file__).resolve().parents[4] / "shared" / "traces" / "public"
DEMAND = ("vc", "time", "total_gpus", "running_gpus")


@pytest.fixture(scope="module")
def files() -> list[Path]:
    found = sorted(TRACES.glob("*.csv"))
    if not found:
        pytest.skip("public-traces are absent: no ../shared/traces/public beside the checkout")
    return found


@pytest.fixture(scope="module")
def helios(files: list[Path]) -> Scores:
    for path in files:
        try:
            if format_of(path).columns == DEMAND:
                return score(plan_score(read_lending(path), 0.0), lambda: None)
        except TraceError:
            continue
    pytest.skip("public-traces have no file of partitions' demand")


def test_every_format_has_a_public_file_that_reads_to_its_end(files: list[Path]) -> None:
    read: dict[str, int] = {}
    for path in files:
        try:
            known = format_of(path)
        except TraceError:
            continue  # networks, indexes and fleets: other readers' work
        read[known.name] = sum(1 for _ in read_records(path))
    assert set(read) == {known.name for known in FORMATS}
    assert min(read.values()) > 50


def test_reclaims_of_later_weeks_are_foretold(helios: Scores) -> None:
    assert helios.later.gain() >= 0.24
    assert helios.later.strict_gain() >= 0.24


def test_reclaims_of_left_out_partitions_are_foretold(helios: Scores) -> None:
    assert helios.left_out.gain() >= 0.20
    assert helios.left_out.strict_gain() >= 0.20


@pytest.mark.parametrize("which", ["later", "left_out"])
def test_no_partition_is_served_worse_than_by_a_constant(helios: Scores, which: str) -> None:
    for partition, one in getattr(helios, which).nodes.items():
        gain = (one.nats[None] - one.nats[Answer.CONSTANT]) / one.departures
        assert gain >= -0.02, partition
