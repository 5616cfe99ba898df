"""Streams are led into guests so that no guest, and none of its users, keeps its owner waiting."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from gpunion.agent.sessions.entries import ENTERING_OF_A_GUEST_MAX, SHELLS_MAX, SHELLS_OF_A_GUEST_MAX, Entries
from gpunion.agent.sessions.gate import StreamGate
from gpunion.agent.sessions.serving import StreamServer
from gpunion.ports.guest_streams import GuestStream
from gpunion.tunnel.streams import Stream, StreamRefused, Tunnel
from gpunion.tunnel.targets import Place, Port, Target, Terminal

RUN = "job-e1"
PORT = Target(run_id=RUN, place=Port(6006))
SHELL = Target(run_id=RUN, place=Terminal(24, 80))


async def nowhere(message: bytes) -> None:
    del message


class DeafGuests:
    """They let whoever enters wait."""

    def __init__(self) -> None:
        self.entering = 0
        self.answers = asyncio.Event()

    async def connect(self, run_id: str, place: Place) -> GuestStream:
        self.entering += 1
        try:
            await self.answers.wait()
        finally:
            self.entering -= 1
        here, there = socket.socketpair()
        there.close()
        return GuestStream(*await asyncio.open_connection(sock=here))


async def until(what) -> None:
    async with asyncio.timeout(20):
        while not what():
            await asyncio.sleep(0)


async def test_a_guest_where_nobody_answers_does_not_delay_its_own_last_save() -> None:
    guests, gate = DeafGuests(), StreamGate()
    server, tunnel = StreamServer(guests, gate), Tunnel(nowhere)
    leading = asyncio.create_task(server.lead(tunnel, PORT, Stream(1, nowhere)))
    await until(lambda: guests.entering)
    async with asyncio.timeout(20), gate.withheld(RUN):
        assert gate.leading_to(RUN) == 0
    await leading
    assert guests.entering == 0


async def test_of_one_guest_so_many_are_sent_in_at_a_time() -> None:
    guests = DeafGuests()
    server, tunnel = StreamServer(guests, StreamGate()), Tunnel(nowhere)
    streams = [Stream(number, nowhere) for number in range(1, 20)]
    leading = [asyncio.create_task(server.lead(tunnel, PORT, stream)) for stream in streams]
    other = Target(run_id="other-e1", place=Port(1))
    await until(lambda: guests.entering == ENTERING_OF_A_GUEST_MAX)
    leading.append(asyncio.create_task(server.lead(tunnel, other, Stream(99, nowhere))))
    await until(lambda: guests.entering == ENTERING_OF_A_GUEST_MAX + 1)
    guests.answers.set()
    for task in leading:
        task.cancel()
    await asyncio.wait(leading)


async def test_so_many_shells_are_open_in_a_guest_and_on_a_machine_and_no_more() -> None:
    entries = Entries()
    with contextlib.ExitStack() as others, contextlib.ExitStack() as mine:
        for _ in range(SHELLS_OF_A_GUEST_MAX):
            mine.enter_context(entries.shell(RUN))
        with pytest.raises(StreamRefused, match="terminals are open in it"), entries.shell(RUN):
            pass
        for number in range(SHELLS_MAX - SHELLS_OF_A_GUEST_MAX):
            others.enter_context(entries.shell(f"other-e{number}"))
        with pytest.raises(StreamRefused, match="on its machine"), entries.shell("one-more-e1"):
            pass
        mine.close()
        with entries.shell(RUN):
            pass
