"""The agent's process: what ends it, and what only makes it begin anew."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from gpunion.agent import main


class Forgotten:
    """An agent whose coordinator has forgotten it; systemd may stop it while it cleans up."""

    stopped_meanwhile = False

    def __init__(self, *_: object) -> None:
        return

    async def begin(self) -> None:
        return

    async def live(self, stop: asyncio.Event) -> bool:
        self.stop = stop
        return True

    async def end(self) -> None:
        if self.stopped_meanwhile:
            os.kill(os.getpid(), signal.SIGTERM)
            await self.stop.wait()


@pytest.mark.parametrize("stopped", [False, True])
def test_an_agent_that_is_to_begin_anew_does_not_once_it_was_told_to_stop(
    monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    monkeypatch.setattr(main, "Agent", Forgotten)
    monkeypatch.setattr(Forgotten, "stopped_meanwhile", stopped)
    nothing: Any = None
    assert asyncio.run(main._run(nothing, nothing)) is not stopped
