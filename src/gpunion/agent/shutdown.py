"""The machine is shut down in good order: its guests are saved and go, while there is a network to save over.

Without this they would live until the very end of the shutdown and lose what they did since their last save,
and the campus would hear of it by nothing but silence. What the owner types to switch their machine off is no
word about lending, so it counts like their terms: after the boot the machine is lent as before.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping

import structlog

from gpunion.agent.loop import AgentLoop
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.events import OwnerReclaimed
from gpunion.ports.clock import Clock

# The longest that a shutdown waits for guests; most are saved within a few seconds, and then it goes on.
NOTICE_MOST_S = 30.0
# After that: for the last of them to be removed, and then for the campus to hear of it.
TIDY_S = 5.0
ASK_LIMIT_S = 5.0
LOOK_S = 0.1
DETAIL = "it is being shut down"

log = structlog.get_logger()


def machine_shuts_down(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether systemd stops us because it stops everything; for a service of its own that it tells to end."""
    if "INVOCATION_ID" not in environment:
        return False
    scope = ["--user"] if "MANAGERPID" in environment else []
    try:
        said = subprocess.run(
            ["systemctl", *scope, "is-system-running"],
            capture_output=True,
            text=True,
            timeout=ASK_LIMIT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    return said.strip() == "stopping"


async def send_away(loop: AgentLoop, clock: Clock, in_force: Callable[[], Awaitable[None]]) -> None:
    """Returns when nobody is here and the campus knows, or when the shutdown has waited long enough."""
    station = loop.station
    notice_s = min(station.facts.terms.notice_s, NOTICE_MOST_S)
    log.info("machine_shuts_down", guests=len(station.engine.state.guests), notice_s=notice_s)
    word = OwnerReclaimed(notice_s=notice_s, when_safe=True, cause=HoldCause.TERMS, detail=DETAIL)
    await loop.owner_said(word)
    await in_force()
    until_s = clock.now_s() + notice_s + TIDY_S
    while station.engine.state.guests and clock.now_s() < until_s:
        await asyncio.sleep(LOOK_S)
    until_s = clock.now_s() + TIDY_S
    while station.connected and station.reports.waiting and clock.now_s() < until_s:
        await asyncio.sleep(LOOK_S)
