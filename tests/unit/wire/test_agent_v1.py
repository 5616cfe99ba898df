"""Envelopes: what goes in comes out, and nothing else comes out."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.frames import (
    CoordinatorFrame,
    Finishing,
    FromAgent,
    GpuReading,
    GpuReadings,
    Heartbeat,
    Hello,
    LeaseGrant,
    OrderFrame,
    Progress,
    ReportFrame,
    SaveNote,
    Welcome,
)
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.reports import CheckpointFailed, NodePaused, NoticeGiven
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.domain.timing import Timing
from gpunion.wire import agent_v1
from gpunion.wire.agent_v1 import (
    TooBig,
    WrongVersion,
    pack,
    unpack,
    unpack_from_agent,
    unpack_from_coordinator,
)
from gpunion.wire.codec import FRAME_LIMIT_BYTES, Malformed

CAPACITY = Capacity(
    gpus=(Gpu(index=0, model="A100", memory_bytes=GIB),), cpus=8.0, memory_bytes=GIB, uplink_bps=1e9
)
HELLO = Hello(
    node_id=NodeId("alpha"),
    incarnation="i1",
    facts=NodeFacts(lab="a", capacity=CAPACITY),
    guests=(RunId("job-1-e1"),),
    ack=4,
    sent_s=12.5,
)
HEARTBEAT = Heartbeat(
    sent_s=3.0,
    ack=7,
    progress=(Progress(run_id=RunId("r"), step=1, progress=0.5),),
    saves=(SaveNote(run_id=RunId("r"), checkpoint_id=CheckpointId("c"), stage="sending", for_s=2.5),),
    finishing=(Finishing(run_id=RunId("s"), trouble="vault_full", detail="no space left"),),
)
REPORT = ReportFrame(seq=9, ack=2, sent_s=1.0, report=NoticeGiven(deadline_s=60.0))
WELCOME = Welcome(term=3, orders_before=2, ack=9, timing=Timing(), hello_sent_s=0.5, sent_s=1.0)
GRANT = LeaseGrant(term=3, heartbeat_sent_s=3.0, lease_s=10.0, ack=9, sent_s=4.0)
ORDER = OrderFrame(
    term=3, seq=5, ack=9, sent_s=4.0, order=StopRun(run_id=RunId("r"), job_id=JobId("j"), epoch=1)
)
READINGS = GpuReadings(
    gpus=(GpuReading(index=0, uuid="GPU-1a", utilisation=0.5, memory_used_bytes=GIB, power_w=250.0),)
)
FROM_AGENT: list[FromAgent] = [HELLO, HEARTBEAT, REPORT, READINGS]
FROM_COORDINATOR: list[CoordinatorFrame] = [WELCOME, GRANT, ORDER]


@pytest.mark.parametrize("frame", [*FROM_AGENT, *FROM_COORDINATOR], ids=lambda frame: type(frame).__name__)
def test_a_frame_comes_out_as_it_went_in(frame: FromAgent | CoordinatorFrame) -> None:
    assert unpack(pack(frame)) == frame
    assert unpack(pack(frame).decode()) == frame


def test_what_is_no_text_keeps_no_report_from_being_sent() -> None:
    named = os.fsdecode(b"\xff.pt changed")  # as a guest may call its files
    failed = CheckpointFailed(
        run_id=RunId("r"),
        job_id=JobId("j"),
        epoch=1,
        checkpoint_id=CheckpointId("c"),
        trouble=CheckpointTrouble.TORN,
        places=named,
    )
    frame = unpack_from_agent(pack(replace(REPORT, report=failed)))
    assert frame == replace(REPORT, report=replace(failed, places="?.pt changed"))


def test_an_agent_of_before_says_nothing_of_its_saves_or_of_programs_that_have_ended() -> None:
    envelope = json.loads(pack(HEARTBEAT))
    del envelope["body"]["saves"]
    del envelope["body"]["finishing"]
    assert unpack(json.dumps(envelope)) == replace(HEARTBEAT, saves=(), finishing=())


def test_the_numbers_stand_outside_the_body() -> None:
    envelope = json.loads(pack(ORDER))
    assert {key: envelope[key] for key in ("v", "seq", "ack", "epoch")} == {
        "v": 1,
        "seq": 5,
        "ack": 9,
        "epoch": 3,
    }
    assert json.loads(pack(HEARTBEAT))["epoch"] == 0


def test_each_side_takes_only_what_the_other_sends() -> None:
    for frame in FROM_AGENT:
        assert unpack_from_agent(pack(frame)) == frame
        with pytest.raises(Malformed, match="not a coordinator's frame"):
            unpack_from_coordinator(pack(frame))
    for answer in FROM_COORDINATOR:
        assert unpack_from_coordinator(pack(answer)) == answer
        with pytest.raises(Malformed, match="not a frame an agent sends"):
            unpack_from_agent(pack(answer))


def changed(frame: FromAgent | CoordinatorFrame, **changes: Any) -> bytes:
    return json.dumps({**json.loads(pack(frame)), **changes}).encode()


def test_another_version_is_refused_as_such_whatever_else_it_says() -> None:
    with pytest.raises(WrongVersion, match="use version 1"):
        unpack(changed(HELLO, v=2, something="new"))
    with pytest.raises(Malformed):
        unpack(changed(HELLO, v="1"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[1, 2]",
        b'{"v": 1}',
        changed(HELLO, extra=1),
        changed(HELLO, ack=5),
        changed(REPORT, seq=8),
        changed(ORDER, epoch=4),
        changed(HELLO, body=[]),
        changed(HELLO, body={"type": "Hello"}),
        changed(HELLO, body={"type": "Job"}),
        changed(HELLO, body={}),
    ],
)
def test_anything_else_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(data)


def test_a_value_that_is_no_frame_is_malformed() -> None:
    pause = {"v": 1, "seq": 0, "ack": None, "epoch": 0, "body": {"type": type(NodePaused()).__name__}}
    with pytest.raises(Malformed):
        unpack(json.dumps(pause).encode())


def test_too_many_bytes_are_not_looked_at() -> None:
    with pytest.raises(TooBig):
        unpack(b"{" * (FRAME_LIMIT_BYTES + 1))


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["sent_s", "ack", "seq", "report", "type"]), json_values)
def test_no_field_of_a_frame_raises_anything_but_malformed(name: str, value: Any) -> None:
    envelope = json.loads(pack(REPORT))
    envelope["body"][name] = value
    with suppress(Malformed):
        assert isinstance(unpack(json.dumps(envelope).encode()), ReportFrame)


def test_a_reason_fits_a_close_frame() -> None:
    assert agent_v1.close_reason("short") == "short"
    assert len(agent_v1.close_reason("ä" * 100).encode()) <= 123
