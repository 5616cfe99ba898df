"""Which guests may be reached, and when: not while they stand still, and not without end."""

from __future__ import annotations

import asyncio

import pytest

from gpunion.agent.sessions.gate import OPENED_MAX, OPENED_WITHIN_S, STREAMS_OF_A_GUEST_MAX, StreamGate
from gpunion.tunnel.streams import Stream, StreamRefused

RUN = "job-e1"


async def nowhere(message: bytes) -> None:
    del message


def a_stream(number: int = 1) -> Stream:
    return Stream(number, nowhere)


async def test_a_guest_that_is_to_stand_still_has_its_streams_closed_first_and_gets_none() -> None:
    gate, stream, ended = StreamGate(), a_stream(), asyncio.Event()

    async def lead() -> None:
        with gate.through(RUN, stream, enters=True):
            with pytest.raises(ConnectionError):
                await stream.read()
            ended.set()

    leading = asyncio.create_task(lead())
    await asyncio.sleep(0)
    assert (gate.leading_to(RUN), gate.entered(RUN)) == (1, 1)
    async with gate.withheld(RUN):
        assert ended.is_set()
        with pytest.raises(StreamRefused) as refused, gate.through(RUN, a_stream()):
            pass
        assert refused.value.moving
    await leading
    with gate.through(RUN, a_stream()):
        assert gate.leading_to(RUN) == 1
    assert (gate.leading_to(RUN), gate.entered(RUN)) == (0, 0)


async def test_a_last_save_keeps_it_shut_until_it_is_let_go() -> None:
    gate = StreamGate()
    async with gate.withheld(RUN):
        gate.withhold(RUN)
    with pytest.raises(StreamRefused), gate.through(RUN, a_stream()):
        pass
    gate.allow(RUN)
    with gate.through(RUN, a_stream()):
        pass


async def test_a_guest_that_is_called_without_end_is_called_no_more_for_a_while() -> None:
    now_s = [0.0]
    gate = StreamGate(now_s=lambda: now_s[0])
    for number in range(OPENED_MAX):
        with gate.through(RUN, a_stream(number)):
            gate.led(RUN)
    with (
        pytest.raises(StreamRefused, match="more than 300 streams") as refused,
        gate.through(RUN, a_stream()),
    ):
        pass
    assert not refused.value.moving
    with gate.through("other-e1", a_stream()):
        pass
    now_s[0] = OPENED_WITHIN_S
    with gate.through(RUN, a_stream()):
        pass


async def test_asking_for_what_does_not_answer_yet_uses_nothing_up() -> None:
    gate = StreamGate(now_s=lambda: 0.0)
    for number in range(2 * OPENED_MAX):
        with gate.through(RUN, a_stream(number)):
            pass


async def test_so_many_lead_to_a_guest_and_no_more() -> None:
    gate = StreamGate()
    held = [gate.through(RUN, a_stream(number)) for number in range(STREAMS_OF_A_GUEST_MAX)]
    for one in held:
        one.__enter__()
    with pytest.raises(StreamRefused, match="lead to it already"), gate.through(RUN, a_stream()):
        pass
    held[0].__exit__(None, None, None)
    with gate.through(RUN, a_stream()):
        pass


async def test_what_its_owner_forbids_is_closed_at_once() -> None:
    why = [""]
    gate, stream = StreamGate(lambda run_id: why[0]), a_stream()
    with gate.through(RUN, stream):
        await gate.close_forbidden()
        assert not stream.closed
        why[0] = "the owner of its machine allows nobody to work in guests"
        await gate.close_forbidden()
        assert stream.closed == why[0]
