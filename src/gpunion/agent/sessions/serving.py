"""Leads a stream that the coordinator opens to what it asks for in a guest of this machine."""

from __future__ import annotations

import structlog

from gpunion.agent.sessions.gate import StreamGate
from gpunion.ports.guest_streams import GuestStreams, NotReached
from gpunion.tunnel.carrying import Pace, at_once, carry
from gpunion.tunnel.streams import Stream, StreamRefused, Tunnel
from gpunion.tunnel.targets import Target, shown_place

log = structlog.get_logger()


class StreamServer:
    def __init__(self, guests: GuestStreams, gate: StreamGate, pace: Pace = at_once) -> None:
        self._guests = guests
        self.gate = gate
        self._pace = pace

    async def lead(self, tunnel: Tunnel, target: Target, stream: Stream) -> None:
        with self.gate.through(target.run_id, stream, enters=target.enters):
            try:
                there = await self._guests.connect(target.run_id, target.place)
            except NotReached as why:
                raise StreamRefused(str(why)) from why
            if stream.closed:  # while it was being connected
                there.writer.close()
                return
            if target.enters:
                log.info("guest_entered", run=target.run_id, to=shown_place(target.place))
            try:
                await tunnel.opened(stream)
                await carry(stream, there.reader, there.writer, self._pace)
            finally:
                there.writer.close()
