"""How an agent comes to what a guest has made for others to connect to: sockets, ports, a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from gpunion.tunnel.targets import Place


class NotReached(ConnectionError):
    """What was asked for is not there, or is not the guest's own, in words for the one who asked."""


@dataclass(frozen=True, slots=True)
class GuestStream:
    """A connection to something of a guest's."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class GuestStreams(Protocol):
    async def connect(self, run_id: str, place: Place) -> GuestStream:
        """NotReached says why not. Whoever asks closes the writer."""
        ...


class TunnelSession(Protocol):
    """One open tunnel of this agent's."""

    async def send(self, message: bytes) -> None:
        """OSError when the connection is gone."""
        ...

    def messages(self) -> AsyncIterator[bytes]:
        """What arrives, until the connection ends."""
        ...


class TunnelLink(Protocol):
    def connect_tunnel(self) -> AbstractAsyncContextManager[TunnelSession]:
        """A LinkFault says why there is none."""
        ...
