"""The child that talks to the driver, as its parent sees it: asked, waited for, replaced when it hangs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from typing import Any

CHILD = (sys.executable, "-m", "gpunion.adapters.nvml.child")
# A driver that wakes its cards up takes a second or two; one that takes longer hangs.
ANSWER_LIMIT_S = 3.0
FIRST_ANSWER_LIMIT_S = 10.0
ANSWER_LIMIT_BYTES = 1024 * 1024
# A process stuck in the driver cannot be killed, only left. More than this many are not made.
STUCK_MAX = 3


class ProbeTrouble(Exception):
    """Why the driver was not heard, in words for the owner."""


def ask_once(limit_s: float = FIRST_ANSWER_LIMIT_S) -> Any:
    """For a starting agent, which has no loop yet. Returns the readings."""
    try:
        child = subprocess.Popen(
            CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        raise ProbeTrouble(f"the driver could not be asked: {error.strerror}") from error
    try:
        answer, _ = child.communicate(b"look\n", timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise ProbeTrouble(f"the driver did not answer within {limit_s:g} s") from None
    finally:
        child.kill()  # one that is stuck in the driver stays until the driver lets it go; nobody waits for it
    return readings(answer)


def readings(line: bytes) -> Any:
    try:
        answer = json.loads(line)
    except ValueError:
        raise ProbeTrouble("the process that asks the driver died") from None
    if not isinstance(answer, dict) or "gpus" not in answer:
        trouble = answer.get("trouble") if isinstance(answer, dict) else None
        raise ProbeTrouble(str(trouble or "the driver's answer makes no sense"))
    return answer["gpus"]


class Probe:
    """One long-lived child, asked by one at a time: the watch of the GPUs, and whoever parks a guest."""

    def __init__(self, limit_s: float = ANSWER_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._child: asyncio.subprocess.Process | None = None
        self._stuck: list[asyncio.subprocess.Process] = []
        self._turn = asyncio.Lock()

    async def ask(self) -> Any:
        """The readings; ProbeTrouble within the limit where there are none."""
        async with self._turn:
            return await self._ask()

    async def _ask(self) -> Any:
        fresh = self._child is None
        child = await self._living()
        limit_s = FIRST_ANSWER_LIMIT_S if fresh else self._limit_s
        try:
            async with asyncio.timeout(limit_s):
                line = await _exchange(child)
        except TimeoutError:
            self._give_up()
            raise ProbeTrouble(f"the driver did not answer within {limit_s:g} s") from None
        except (OSError, ValueError):
            self._give_up()
            raise ProbeTrouble("the process that asks the driver died") from None
        except asyncio.CancelledError:
            self._give_up()  # its answer would be taken for the next question's
            raise
        try:
            return readings(line)
        except ProbeTrouble:
            if child.returncode is not None or not line:
                self._give_up()
            raise

    async def close(self) -> None:
        child = self._child
        self._give_up()
        if child is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limit_s):
                    await child.wait()

    async def _living(self) -> asyncio.subprocess.Process:
        if self._child is not None and self._child.returncode is None:
            return self._child
        self._stuck = [child for child in self._stuck if child.returncode is None]
        if len(self._stuck) >= STUCK_MAX:
            raise ProbeTrouble(f"the driver hangs: {len(self._stuck)} processes are stuck in it")
        try:
            self._child = await asyncio.create_subprocess_exec(
                *CHILD,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                limit=ANSWER_LIMIT_BYTES,
            )
        except OSError as error:
            raise ProbeTrouble(f"the driver could not be asked: {error.strerror}") from error
        return self._child

    def _give_up(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            self._stuck.append(child)


async def _exchange(child: asyncio.subprocess.Process) -> bytes:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"look\n")
    await child.stdin.drain()
    return await child.stdout.readline()
