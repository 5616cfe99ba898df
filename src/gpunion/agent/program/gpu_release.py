"""Asking a guest's program to give up its GPU by itself, before the driver takes what is left.

Only programs are asked that have said they can. One that is in the middle of a long step is not waited for:
the driver moves it as it is, and the program, when it comes to the question, finds that it is over.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from gpunion.agent.dependencies import ControlFiles
from gpunion.agent.program.messages import (
    ASIDE_FILE,
    STEPPED_ASIDE_FILE,
    SteppedAside,
    can_step_aside,
    read_stepped_aside,
)
from gpunion.ports.runtime import RuntimeFault

LOOK_S = 0.02
# Most programs come to the end of a step within this; the driver needs the rest of the notice for the others.
BEGIN_LIMIT_S = 1.0
# Of the notice: the driver has to take what remains, or all of it, and the guest to be frozen.
SHARE = 0.6
# A program that was too slow is told so, and gives up between two pieces of its copy.
GIVE_UP_S = 0.5


@dataclass(frozen=True, slots=True)
class AskedAside:
    """Implements `parking.Program`."""

    control: ControlFiles
    control_dir: Path
    nudge: Callable[[], Awaitable[None]]  # a signal, so that it looks; RuntimeFault where that fails

    async def step_aside(self, limit_s: float) -> None:
        began_s = time.monotonic()
        if not await asyncio.to_thread(can_step_aside, self.control, self.control_dir):
            return
        request_id = uuid.uuid4().hex
        question: dict[str, object] = {"id": request_id, "deadline": time.time() + limit_s}
        try:
            await asyncio.to_thread(self.control.write_json, self.control_dir, ASIDE_FILE, question)
            await self.nudge()
        except RuntimeFault:
            return  # it is looked for now and then, signal or not; the driver needs neither
        said = await self._heard(request_id, began_s + min(BEGIN_LIMIT_S, SHARE * limit_s))
        if said is None or said.done or said.trouble:
            return
        said = await self._heard(request_id, began_s + SHARE * limit_s, whole=True)
        if said is None or not (said.done or said.trouble):
            # Its copy and the driver's would be in host memory at once, which has room for one.
            await self.may_come_back()
            await self._heard(request_id, time.monotonic() + GIVE_UP_S, whole=True)

    async def may_come_back(self) -> None:
        await asyncio.to_thread(self.control.delete, self.control_dir, ASIDE_FILE)

    async def is_back(self, wait_s: float) -> bool:
        until_s = time.monotonic() + wait_s
        while await asyncio.to_thread(self._is_aside):
            if time.monotonic() >= until_s:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    def _is_aside(self) -> bool:
        """Or on its way there or back: its copy is in host memory."""
        said = self.control.read_json(self.control_dir, STEPPED_ASIDE_FILE)
        return said is not None and not said.get("trouble")

    async def _heard(self, request_id: str, until_s: float, *, whole: bool = False) -> SteppedAside | None:
        """Its answer as soon as there is one; `whole`: as soon as it says how it ended."""
        while True:
            said = await asyncio.to_thread(read_stepped_aside, self.control, self.control_dir, request_id)
            if said is not None and (said.done or said.trouble or not whole):
                return said
            if time.monotonic() > until_s:
                return said
            await asyncio.sleep(LOOK_S)
