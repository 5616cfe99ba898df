"""The agent's second connection, beside the frames: what people send to guests waits for no heartbeat, and
no heartbeat for them. It is there while there are guests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog

from gpunion.agent.sessions.serving import StreamServer
from gpunion.ports.coordinator_link import LinkFault
from gpunion.ports.guest_streams import TunnelLink, TunnelSession
from gpunion.tunnel.messages import BadMessage
from gpunion.tunnel.streams import Tunnel

FIRST_WAIT_S, LONGEST_WAIT_S = 0.3, 20.0
LOOK_S = 0.3  # whether there are guests

log = structlog.get_logger()


class TunnelConnection:
    def __init__(self, link: TunnelLink, server: StreamServer, wanted: Callable[[], bool]) -> None:
        self._link = link
        self._server = server
        self._wanted = wanted

    async def run(self) -> None:
        """Until cancelled."""
        wait_s, told = FIRST_WAIT_S, ""
        while True:
            while not self._wanted():
                await asyncio.sleep(LOOK_S)
            try:
                async with self._link.connect_tunnel() as session:
                    wait_s, told = FIRST_WAIT_S, ""
                    await self._serve(session)
            except (LinkFault, OSError) as trouble:
                if str(trouble) != told:
                    told = str(trouble)
                    log.warning("tunnel_lost", trouble=told)
            except BadMessage as trouble:
                log.error("tunnel_closed", trouble=str(trouble))
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.5))
            wait_s = min(LONGEST_WAIT_S, 2 * wait_s)

    async def _serve(self, session: TunnelSession) -> None:
        tunnel = Tunnel(session.send, lambda target, stream: self._server.lead(tunnel, target, stream))
        idle = asyncio.create_task(self._until_idle(tunnel))
        receiving = asyncio.create_task(self._receive(tunnel, session))
        try:
            await asyncio.wait([idle, receiving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (idle, receiving):
                task.cancel()
            ends = await asyncio.gather(idle, receiving, return_exceptions=True)
            tunnel.close("the connection of its machine broke")
        for end in ends:
            if isinstance(end, Exception):
                raise end

    @staticmethod
    async def _receive(tunnel: Tunnel, session: TunnelSession) -> None:
        async for message in session.messages():
            tunnel.received(message)

    async def _until_idle(self, tunnel: Tunnel) -> None:
        while self._wanted() or tunnel.streams:
            await self._server.gate.close_forbidden()
            await asyncio.sleep(LOOK_S)
