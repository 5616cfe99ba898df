"""Hears of a kill that went past the agent: `gpunion kill` asks nobody and leaves a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpunion.agent.loop import AgentLoop
from gpunion.domain.protocol.events import AgentEvent, GuestExited, GuestStartFailed, OwnerKilled
from gpunion.owner_kill import killed_at_s

LOOK_S = 0.5
# A decision takes milliseconds; a disk that takes longer over it keeps no owner from an answer.
HEARD_LOOK_S, HEARD_LIMIT_S = 0.01, 1.0


def owner_has_killed(state_dir: Path) -> bool:
    return killed_at_s(state_dir) is not None


class KillListener:
    """The guests are dead by then; this is so that nobody new comes, and the campus knows why."""

    def __init__(self, loop: AgentLoop, state_dir: Path) -> None:
        self._loop = loop
        self._state_dir = state_dir
        self._told = False

    def look(self) -> None:
        killed = self._loop.station.engine.state.holding.killed
        if killed or not owner_has_killed(self._state_dir):
            self._told = False
        elif not self._told:
            self._told = True
            self._loop.owner_meant(OwnerKilled())

    async def heard(self) -> None:
        """Returns when a kill that lies there counts, so that nobody is told otherwise after it."""
        for _ in range(round(HEARD_LIMIT_S / HEARD_LOOK_S)):
            self.look()
            if not self._told:
                return
            await asyncio.sleep(HEARD_LOOK_S)

    def post(self, event: AgentEvent) -> None:
        """A guest's end is told after the kill that ended it, or it would be sent straight back here."""
        if isinstance(event, GuestExited | GuestStartFailed):
            self.look()
        self._loop.post(event)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)
