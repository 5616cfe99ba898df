"""Leads a stream that the coordinator opens to what it asks for in a guest of this machine."""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from gpunion.agent.sessions.entries import Entries
from gpunion.agent.sessions.gate import StreamGate
from gpunion.ports.guest_streams import GuestStream, GuestStreams, NotReached
from gpunion.tunnel.carrying import Pace, at_once, carry
from gpunion.tunnel.streams import Stream, StreamRefused, Tunnel
from gpunion.tunnel.targets import Target, Terminal, shown_place

log = structlog.get_logger()


class StreamServer:
    def __init__(self, guests: GuestStreams, gate: StreamGate, pace: Pace = at_once) -> None:
        self._guests = guests
        self.gate = gate
        self._pace = pace
        self._entries = Entries()

    async def lead(self, tunnel: Tunnel, target: Target, stream: Stream) -> None:
        is_shell = isinstance(target.place, Terminal)
        shell = self._entries.shell(target.run_id) if is_shell else contextlib.nullcontext()
        with self.gate.through(target.run_id, stream, enters=target.enters), shell:
            there = await self._connected(target, stream)
            if there is None:
                return
            self.gate.led(target.run_id)
            if target.enters:
                log.info("guest_entered", run=target.run_id, to=shown_place(target.place))
            try:
                await tunnel.opened(stream)
                await carry(stream, there.reader, there.writer, self._pace)
            finally:
                there.writer.close()

    async def _connected(self, target: Target, stream: Stream) -> GuestStream | None:
        """None: nobody waits for it any more. A guest that lets it wait must not keep its owner waiting too,
        who closes streams first."""
        connecting = asyncio.create_task(self._connect(target))
        breaking = asyncio.create_task(stream.broken())
        try:
            await asyncio.wait([connecting, breaking], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (connecting, breaking):
                task.cancel()
            await asyncio.wait([connecting, breaking])
        if stream.closed:
            if not connecting.cancelled() and connecting.exception() is None:
                connecting.result().writer.close()
            return None
        return connecting.result()

    async def _connect(self, target: Target) -> GuestStream:
        turn = self._entries.entering(target.run_id) if target.enters else contextlib.nullcontext()
        try:
            async with turn:
                return await self._guests.connect(target.run_id, target.place)
        except NotReached as why:
            raise StreamRefused(str(why)) from why
