"""The counter where other machines hand over checkpoints: opened, and opened anew where it has to be.

A service starts before the network is there, a machine gets another address, a port is taken for a while:
the counter opens as soon as it can, and the campus is told where.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from gpunion.agent.machine.caps import Caps
from gpunion.agent.tasks import in_own_thread
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.passes import Keeping, token_of
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.vault.http.running_saves import PeerDesk
from gpunion.vault.peers import BlockServing
from gpunion.vault.ready import ReadyStates

LOOK_EVERY_S = 60.0
LOOK_AGAIN_S = 10.0  # where it is not open

log = structlog.get_logger()


class Counter:
    """If it cannot be opened others save elsewhere, and this machine lends as ever."""

    def __init__(
        self,
        *,
        find_host: Callable[[], str],
        open_at: Callable[[str], tuple[BlockServing, Keeping]],
        port: int,
        station: PureAgent,
        greet_again: Callable[[], None],
    ) -> None:
        """`find_host`: the address that others use now, or nothing. `open_at` raises OSError where it is not
        this machine's or is taken, ValueError where something else is wrong. Both may take long."""
        self._find_host = find_host
        self._open_at = open_at
        self._port = port
        self._station = station
        self._greet_again = greet_again
        self._server: BlockServing | None = None
        self._host = ""
        self._looked = asyncio.Event()
        self.trouble = ""  # in words for the owner

    @property
    def is_open(self) -> bool:
        return self._server is not None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:  # whatever is wrong with it, the agent lives on for its guests
                log.exception("counter_not_looked_at")
            self._looked.set()
            await asyncio.sleep(LOOK_EVERY_S if self.is_open and not self.trouble else LOOK_AGAIN_S)

    async def looked(self, limit_s: float) -> None:
        """Returns when `run` has looked once, or after so long."""
        first = asyncio.create_task(self._looked.wait())
        await asyncio.wait([first], timeout=limit_s)
        first.cancel()

    async def look(self) -> None:
        host = await in_own_thread(self._find_host)
        if not host and not self.is_open:
            self._complain("this machine finds no way to the coordinator, so it has no address for others")
        if not host or (self.is_open and host == self._host):
            return
        try:
            server, keeping = await in_own_thread(lambda: self._open_at(host))
        except (OSError, ValueError) as error:
            self._complain(f"port {self._port} of {host} could not be opened for checkpoints: {error}")
            return
        self.close()
        self._server, self._host, self.trouble = server, host, ""
        server.start()
        self._station.change_facts(replace(self._station.facts, keeping=keeping))
        self._greet_again()
        log.info("checkpoints_kept", address=server.address)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _complain(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error("counter_not_opened", trouble=trouble)
        self.trouble = trouble


class NeverCancelled:
    def __call__(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


def desk_for_others(ready: ReadyStates, caps: Caps, owner_state: Callable[[], OwnerState]) -> PeerDesk:
    """What others may have of this machine, as far as its owner lets them."""
    return PeerDesk(
        ready,
        # Until its owner has it; within a notice there are still last saves to follow.
        is_open=lambda: owner_state() in (OwnerState.SHARING, OwnerState.PAUSED, OwnerState.RECLAIMING),
        # Within a notice the wire is there for what has to be saved.
        wire_is_free=lambda: owner_state() is not OwnerState.RECLAIMING,
        pace=lambda sent_bytes: caps.pace(sent_bytes, NeverCancelled()),
        token=token_of,
    )
