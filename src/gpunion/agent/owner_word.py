"""Hears of a kill that went past the agent: `gpunion kill` asks nobody and leaves a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpunion.agent.loop import AgentLoop
from gpunion.domain.events import OwnerKilled
from gpunion.owner_kill import killed_at_s

LOOK_S = 0.5


def owner_has_killed(state_dir: Path) -> bool:
    return killed_at_s(state_dir) is not None


async def listen_for_kill(loop: AgentLoop, state_dir: Path) -> None:
    """Until cancelled. The guests are dead by then; this is so that nobody new comes and the campus knows."""
    while True:
        if not loop.station.engine.state.holding.killed and owner_has_killed(state_dir):
            await loop.owner_said(OwnerKilled())
        await asyncio.sleep(LOOK_S)
