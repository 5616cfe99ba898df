"""Numbers, texts and lists that cross a boundary lie within their ranges, whoever says them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpunion import limits
from gpunion.domain import ids
from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.frames import (
    Finishing,
    Heartbeat,
    Hello,
    OrderFrame,
    Preparing,
    Progress,
    ReportFrame,
)
from gpunion.domain.protocol.orders import StageState, StartRun, StopRun
from gpunion.domain.protocol.reports import DepartureForetold, RunEnded, TermsChanged
from gpunion.domain.resources import GIB, Capacity, Gpu, Grant
from gpunion.limits import TEXT_MAX_CHARS
from gpunion.wire import bounds, codec, ranges
from gpunion.wire.agent_v1 import pack, unpack_from_agent, unpack_from_coordinator
from gpunion.wire.codec import Malformed
from gpunion.wire.rules import Way
from gpunion.wire.v1.convert import shown_time

GPU = Gpu(index=0, model="A100", memory_bytes=GIB)
CAPACITY = Capacity(gpus=(GPU,), cpus=8.0, memory_bytes=GIB, uplink_bps=1e9)
HELLO = Hello(
    node_id=NodeId("alpha"),
    incarnation="i1",
    facts=NodeFacts(lab="a", capacity=CAPACITY),
    guests=(),
    ack=0,
    sent_s=1.0,
)
START = StartRun(
    run_id=RunId("job-1-e1"),
    job_id=JobId("job-1"),
    epoch=1,
    command=("train",),
    environment=(("A", "b"),),
    bundle=None,
    grant=Grant(gpu_indices=(0,), cpus=1.0, memory_bytes=GIB),
)


def with_gpu(**changes: Any) -> Hello:
    return with_capacity(gpus=(replace(GPU, **changes),))


def with_capacity(**changes: Any) -> Hello:
    return replace(HELLO, facts=replace(HELLO.facts, capacity=replace(CAPACITY, **changes)))


def beat(**changes: Any) -> Heartbeat:
    reached = replace(Progress(run_id=RunId("r"), step=1, progress=0.5), **changes)
    return Heartbeat(sent_s=1.0, ack=0, progress=(reached,))


def said_raw(frame: Any) -> bytes:
    """As somebody says it who keeps to no range."""
    envelope = {"v": 1, "seq": getattr(frame, "seq", 0), "ack": frame.ack, "epoch": getattr(frame, "term", 0)}
    return json.dumps(envelope | {"body": codec._tagged(frame)}).encode()


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("kind", codec.crossing(), ids=lambda kind: kind.__name__)
def test_every_number_text_and_list_that_crosses_a_boundary_has_a_range(kind: type, way: Way) -> None:
    assert bounds.walkers(way)[kind] is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Careless:
    """What somebody might add to a report."""

    warmth: float
    words: str
    things: tuple[int, ...]


@pytest.mark.parametrize(("field", "kind"), [("warmth", float), ("words", str), ("things", int)])
def test_a_field_that_is_added_without_a_range_is_found(field: str, kind: type) -> None:
    with pytest.raises(ranges.NoRange, match=rf"Careless\.{field}"):
        ranges.of_field("Careless", field, kind, stored=False)


def test_a_list_that_is_added_without_a_bound_is_found() -> None:
    with pytest.raises(ranges.NoRange, match=r"Careless\.things"):
        ranges.of_list("Careless", "things", stored=False)


IMPOSSIBLE: dict[str, list[Any]] = {
    "Gpu.speed": [with_gpu(speed=speed) for speed in (0.0, -1.0, 5e-324, 100.5, 1.7e308)],
    "Gpu.index": [with_gpu(index=-1), with_gpu(index=2**40)],
    "Gpu.memory_bytes": [with_gpu(memory_bytes=-5), with_gpu(memory_bytes=2**60)],
    "Gpu.model": [with_gpu(model="x" * 50_000), with_gpu(model="\x1b]52;c;x\x07")],
    "Capacity.gpus": [
        with_capacity(gpus=(GPU, GPU)),
        with_capacity(gpus=tuple(replace(GPU, index=index) for index in range(1000))),
    ],
    "Capacity.cpus": [with_capacity(cpus=-1.0), with_capacity(cpus=1e300)],
    "Capacity.memory_bytes": [with_capacity(memory_bytes=-1)],
    "Capacity.uplink_bps": [with_capacity(uplink_bps=-1.0), with_capacity(uplink_bps=1e300)],
    "Hello.incarnation": [replace(HELLO, incarnation="i" * 1000)],
    "Hello.guests": [
        replace(HELLO, guests=(RunId("../../etc"),)),
        replace(HELLO, guests=(RunId("r"),) * 5000),
    ],
    "Hello.sent_s": [replace(HELLO, sent_s=-1e11), replace(HELLO, sent_s=1e300)],
    "Progress.step": [beat(step=-1), beat(step=10**15)],
    "Progress.progress": [beat(progress=1.5), beat(progress=-0.1)],
}


@pytest.mark.parametrize(
    ("field", "frame"), [(field, frame) for field, frames in IMPOSSIBLE.items() for frame in frames]
)
def test_what_cannot_be_is_refused_by_the_name_of_its_field(field: str, frame: Any) -> None:
    with pytest.raises(Malformed, match=rf"^{field}: "):
        unpack_from_agent(said_raw(frame))


@pytest.mark.parametrize("frame", [frame for frames in IMPOSSIBLE.values() for frame in frames])
def test_an_agent_says_what_can_be_instead_or_nothing_under_another_name(frame: Any) -> None:
    if getattr(frame, "guests", ())[:1] == (RunId("../../etc"),):
        with pytest.raises(Malformed):
            pack(frame)
        return
    heard = unpack_from_agent(pack(frame))
    assert type(heard) is type(frame)


def test_a_speed_of_a_faulty_driver_is_brought_into_its_range() -> None:
    for strange in (0.0, math.nan, math.inf, -3.0):
        heard = unpack_from_agent(pack(with_gpu(speed=strange)))
        assert isinstance(heard, Hello)
        assert 0 < heard.facts.capacity.speed <= 100


def ended(detail: str) -> ReportFrame:
    report = RunEnded(
        run_id=RunId("r"), job_id=JobId("j"), epoch=1, reason=EndReason.FAILED, last_step=1, detail=detail
    )
    return ReportFrame(seq=1, ack=0, sent_s=1.0, report=report)


def test_what_a_node_says_is_cut_and_made_readable_where_it_arrives() -> None:
    long = unpack_from_agent(said_raw(ended("a long story " * 10_000)))
    assert isinstance(long, ReportFrame)
    assert isinstance(long.report, RunEnded)
    assert 0 < len(long.report.detail) <= TEXT_MAX_CHARS
    raw = unpack_from_agent(said_raw(ended("all\x1b]52;c;aGk=\x07 is \x9b2Jwell\u202e\nnext")))
    assert isinstance(raw, ReportFrame)
    assert isinstance(raw.report, RunEnded)
    assert raw.report.detail == "all ]52;c;aGk= is 2Jwell next"


def test_every_word_of_a_report_and_a_heartbeat_for_people_is_cut() -> None:
    much = "much " * 40_000
    for report in (
        TermsChanged(terms=Terms(), said=much),
        DepartureForetold(at_s=None, because=much),
    ):
        heard = unpack_from_agent(said_raw(ReportFrame(seq=1, ack=0, sent_s=1.0, report=report)))
        assert len(pack(heard)) < 2 * TEXT_MAX_CHARS
    notes = Heartbeat(
        sent_s=1.0,
        ack=0,
        preparing=(Preparing(run_id=RunId("r"), what=much[:100_000]),),
        finishing=(Finishing(run_id=RunId("r"), detail=much[:100_000]),),
    )
    assert len(pack(unpack_from_agent(said_raw(notes)))) < 4 * TEXT_MAX_CHARS


def test_an_agents_frame_is_bounded_well_below_a_coordinators() -> None:
    with pytest.raises(Malformed, match="more than"):
        unpack_from_agent(said_raw(replace(HELLO, incarnation="x" * 300_000)))


BAD_IDS = ["", ".", "..", "/etc", "../x", "a/b", "-x", "a" * 200, "a\n", "a\0", "ä"]


@pytest.mark.parametrize("bad", BAD_IDS)
def test_an_order_whose_ids_name_something_else_is_refused(bad: str) -> None:
    seal = StageState(
        run_id=RunId("r"), job_id=JobId("j"), epoch=1, checkpoint_id=CheckpointId(bad), rate_bps=0.0
    )
    for order in (
        replace(START, run_id=RunId(bad)),
        replace(START, job_id=JobId(bad)),
        replace(START, restore=CheckpointId(bad)),
        replace(START, spoiled=(CheckpointId(bad),)),
        replace(START, bundle=bad),
        replace(START, places=(bad,)),
        StopRun(run_id=RunId(bad), job_id=JobId("j"), epoch=1),
        seal,
    ):
        with pytest.raises(Malformed):
            unpack_from_coordinator(said_raw(ordered(order)))


def ordered(order: Any) -> OrderFrame:
    return OrderFrame(term=1, seq=1, ack=0, sent_s=1.0, order=order)


@pytest.mark.parametrize(
    ("field", "order"),
    [
        ("StartRun.epoch", replace(START, epoch=0)),
        ("StartRun.epoch", replace(START, epoch=10**15)),
        ("StartRun.restore_step", replace(START, restore_step=-1)),
        ("Grant.gpu_indices", replace(START, grant=replace(START.grant, gpu_indices=(0, 0)))),
        ("Grant.gpu_indices", replace(START, grant=replace(START.grant, gpu_indices=(-1,)))),
        ("Grant.cpus", replace(START, grant=replace(START.grant, cpus=1e9))),
        ("Grant.memory_bytes", replace(START, grant=replace(START.grant, memory_bytes=2**60))),
        ("StartRun.command", replace(START, command=("x",) * 100_000)),
        ("StartRun.environment", replace(START, environment=(("A", "x" * 700_000),))),
        ("StartRun.vault_key", replace(START, vault_key="../../key")),
    ],
)
def test_an_order_beyond_all_bounds_is_refused_by_the_name_of_its_field(field: str, order: StartRun) -> None:
    with pytest.raises(Malformed, match=rf"^{field}: "):
        unpack_from_coordinator(said_raw(ordered(order)))


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf, 1e300])
def test_a_number_that_could_not_be_read_again_is_not_written(strange: float) -> None:
    with pytest.raises(Malformed, match=r"Heartbeat.sent_s"):
        codec.encode(Heartbeat(sent_s=strange, ack=0))


texts = st.text(max_size=12) | st.sampled_from(["r-1", "\x1b[2J", "..", "x" * 600, "\ud800"])
for name in ("JobId", "RunId", "NodeId", "CheckpointId", "MigrationId"):
    st.register_type_strategy(getattr(ids, name), st.sampled_from(["job-1", "a.b", "job-1-e1-c2"]) | texts)


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=300)
@given(st.data())
def test_what_is_written_reads_the_same_and_all_else_is_refused(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(codec.crossing()))
    try:
        value = data.draw(st.from_type(kind))
    except ValueError:
        return  # of the few that refuse by themselves what cannot be
    try:
        written = codec.encode(value)
    except Malformed:
        return
    assert codec.decode(written) == value


@given(
    sent_s=st.floats(-limits.MOMENT_MAX_S, limits.MOMENT_MAX_S),
    at_s=st.floats(-limits.MOMENT_MAX_S, limits.MOMENT_MAX_S),
)
def test_a_moment_of_another_clock_is_a_date_wherever_it_is_translated_to(sent_s: float, at_s: float) -> None:
    today_s = 1.8e9
    assert shown_time(at_s + today_s - sent_s)
