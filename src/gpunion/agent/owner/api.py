"""The owner's socket: whoever may open this file owns the machine. Works with the coordinator dead."""

from __future__ import annotations

import asyncio
import json
import math
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gpunion.agent.loop import AgentLoop
from gpunion.agent.owner.client import SOCKET_NAME
from gpunion.agent.owner.kill_file import KillListener
from gpunion.agent.owner.status import StatusBoard
from gpunion.agent.tasks import in_own_thread
from gpunion.agent.terms.editor import TermsDesk
from gpunion.agent.terms.file import TermsTrouble
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.nodes.terms import DEFAULT_WHEN_SAFE_S
from gpunion.domain.nodes.withheld import earliest_deadline_s
from gpunion.domain.protocol.events import OwnerKilled, OwnerPaused, OwnerReclaimed, OwnerResumed
from gpunion.limits import finite
from gpunion.owner_kill import kill_all, lift_kill
from gpunion.text import counted, duration_in_words

REQUEST_LIMIT_BYTES = 64 * 1024
# Somebody who connects and says nothing is not an owner in a hurry.
REQUEST_LIMIT_S = 10.0
# A day's notice is a calendar entry, not a reclaim.
NOTICE_MAX_S = 24 * 3600.0
# Nor is waiting for a safe moment for longer than this.
WHEN_SAFE_MAX_S = 7 * 24 * 3600.0


class No(Exception):
    """A refusal, in words for the owner."""


class OwnerApi:
    def __init__(
        self,
        *,
        state_dir: Path,
        loop: AgentLoop,
        board: StatusBoard,
        in_force: Callable[[], Awaitable[None]],
        desk: TermsDesk | None = None,
        kills: KillListener | None = None,
    ) -> None:
        self._kills = kills
        self._desk = desk
        self._state_dir = state_dir
        self._in_force = in_force
        self._loop = loop
        self._board = board
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        path = self._state_dir / SOCKET_NAME
        path.unlink(missing_ok=True)  # of an agent that died; the lock says there is no other
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(self._state_dir, os.O_RDONLY | os.O_DIRECTORY)
        before = os.umask(0o177)
        try:
            listener.bind(f"/proc/self/fd/{folder}/{SOCKET_NAME}")  # a longer path would not fit its address
        finally:
            os.umask(before)
            os.close(folder)
        os.chmod(path, 0o600)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=REQUEST_LIMIT_BYTES)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        (self._state_dir / SOCKET_NAME).unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                line = await reader.readline()
            answer = await self._answer(line)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            return  # gone, too slow or too long: nobody to answer
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError):
            return {"ok": False, "error": 'A request is one line of JSON, such as {"verb": "status"}.'}
        try:
            message = await self._obey(str(request.get("verb")), request)
        except No as no:
            return {"ok": False, "error": str(no)}
        return {"ok": True, "message": message, "status": self._board.status()}

    async def _obey(self, verb: str, request: dict[str, Any]) -> str:
        match verb:
            case "status":
                if self._kills is not None:
                    await self._kills.heard()
                return ""
            case "pause" | "resume" | "reclaim" if "gpus" in request:
                return await self._about_gpus(verb, request, self._gpus(request))
            case "pause":
                return await self._pause()
            case "resume":
                return await self._resume()
            case "reclaim":
                return await self._reclaim(request, leaving=False)
            case "leave":
                return await self._reclaim(request, leaving=True)
            case "kill":
                return await self._kill()
            case "terms":
                return await self._terms(request)
            case _:
                raise No(
                    f"This agent does not know {verb!r}: status, pause, resume, reclaim, leave, kill, terms."
                )

    async def _pause(self) -> str:
        answer = await self._loop.owner_said(OwnerPaused())
        text = "No new guests come until `gpunion resume`."
        if self._owner_state() is OwnerState.RECLAIMING:
            text = "No new guests come, and those here are leaving as before."
        elif self._board.status()["guests"]:
            text = "No new guests come. Those here may stay; `gpunion reclaim` sends them away."
        return _remembering(text, answer.forgettable)

    async def _resume(self) -> str:
        if self._owner_state() is OwnerState.LEFT:
            raise No("This machine has left the campus. Next: gpunion join")
        # First the file: nothing starts before the engine says so, whatever the file says.
        await in_own_thread(lambda: lift_kill(self._state_dir))
        answer = await self._loop.owner_said(OwnerResumed())
        text = "This machine is shared again."
        if because := self._board.out_of_hours():
            text += (
                f" By your hours it would not be ({because}): your word counts until they have come round."
            )
        return _remembering(text, answer.forgettable)

    async def _reclaim(self, request: dict[str, Any], *, leaving: bool) -> str:
        when_safe = request.get("when_safe") is True
        notice_s = self._limit_s(request) if when_safe else self._notice_s(request)
        if self._owner_state() is OwnerState.LEFT:
            raise No("This machine has left the campus already.")
        word = OwnerReclaimed(notice_s=notice_s, leaving=leaving, when_safe=when_safe)
        answer = await self._loop.owner_said(word)
        await self._in_force()  # the deadline is with the keepers: from now on it needs no agent
        if self._owner_state() in (OwnerState.RECLAIMED, OwnerState.LEFT):
            text = "The machine is yours: no guest is on it, and none comes until `gpunion resume`."
            if leaving:
                text = "This machine has left the campus; no guest is on it."
        else:
            deadline_in_s = self._board.deadline_in_s() or 0.0
            if when_safe:
                text = (
                    "Every guest goes as soon as what it did is saved; the machine is yours in "
                    f"{_shown(deadline_in_s)} at most. `gpunion kill` takes it at once."
                )
                return _remembering(text, answer.forgettable)
            then = " Then it leaves the campus." if leaving else ""
            text = (
                f"The machine is yours in {_shown(deadline_in_s)} at most.{then} "
                "`gpunion kill` takes it at once."
                if notice_s
                else f"Guests are being ended right now; then the machine is yours.{then}"
            )
        return _remembering(text, answer.forgettable)

    async def _about_gpus(self, verb: str, request: dict[str, Any], gpus: tuple[int, ...]) -> str:
        if self._owner_state() is OwnerState.LEFT:
            raise No("This machine has left the campus already.")
        named = f"GPU {', '.join(map(str, gpus))}"
        match verb:
            case "pause":
                answer = await self._loop.owner_said(OwnerPaused(gpus=gpus))
                those = ",".join(map(str, gpus))
                text = (
                    f"No new guests come on {named}. `gpunion reclaim --gpu {those}` sends away who is there."
                )
            case "resume":
                answer = await self._loop.owner_said(OwnerResumed(gpus=gpus))
                text = f"{named} is shared again."
                state = self._owner_state()
                if state is not OwnerState.SHARING:
                    text = f"{named} is shared again as soon as the machine is: it is {state.value}."
            case _:
                notice_s = self._notice_s(request)
                answer = await self._loop.owner_said(OwnerReclaimed(notice_s=notice_s, gpus=gpus))
                text = f"{named} is yours{self._still_waiting(gpus)}. The rest of the machine stays shared."
        await self._in_force()
        return _remembering(text, answer.forgettable)

    def _still_waiting(self, gpus: tuple[int, ...]) -> str:
        deadline_s = earliest_deadline_s(self._loop.station.engine.state.holding.gpus, gpus)
        if deadline_s is None:
            return ": no guest is on it"
        return f" in {duration_in_words(round(self._board.seconds_until(deadline_s)))} at most"

    def _gpus(self, request: dict[str, Any]) -> tuple[int, ...]:
        value, here = request["gpus"], [gpu.index for gpu in self._loop.station.facts.capacity.gpus]
        if not isinstance(value, list) or not value:
            raise No(f"{value!r} names no GPU.")
        for index in value:
            if isinstance(index, bool) or index not in here:
                known = ", ".join(map(str, here)) or "none"
                raise No(f"This machine has no GPU {index}; it has: {known}.")
        return tuple(sorted(set(value)))

    async def _kill(self) -> str:
        receipt = await in_own_thread(lambda: kill_all(self._state_dir))
        answer = await self._loop.owner_said(OwnerKilled())
        text = f"Ended {counted(len(receipt.ended), 'guest')}. None comes until `gpunion resume`."
        if receipt.survivors:
            text += f" STILL ALIVE: processes {', '.join(map(str, receipt.survivors))}."
        return _remembering(text, answer.forgettable or receipt.trouble)

    def _notice_s(self, request: dict[str, Any]) -> float:
        value = request.get("notice_s", self._loop.station.facts.terms.notice_s)
        return self._seconds(value, NOTICE_MAX_S)

    def _seconds(self, value: Any, most_s: float) -> float:
        seconds = finite(value)
        if seconds is None:
            raise No(f"{value!r} is no number of seconds.")
        if not 0 <= seconds <= most_s:
            raise No(f"A notice lasts between 0 s and {_shown(most_s)}.")
        return seconds

    def _limit_s(self, request: dict[str, Any]) -> float:
        """How long going when it is safe may take."""
        usual_s = DEFAULT_WHEN_SAFE_S if self._desk is None else self._desk.keeper.terms.house.when_safe_s
        return self._seconds(request.get("limit_s", usual_s), WHEN_SAFE_MAX_S)

    async def _terms(self, request: dict[str, Any]) -> str:
        """Shown with the status; changed where `set` or `text` says so."""
        if self._desk is None:
            raise No("This agent keeps no terms.")
        changes, text = request.get("set"), request.get("text")
        try:
            if isinstance(changes, dict):
                said = await self._desk.change(changes)
            elif isinstance(text, str):
                said = await self._desk.replace_all(text)
            else:
                return ""
        except TermsTrouble as trouble:
            raise No(f"{trouble}.\nNothing was changed: your terms are as before.") from trouble
        return f"In force from now on: {said}." if said else "Your terms are as they were."

    def _owner_state(self) -> OwnerState:
        return self._loop.station.engine.state.holding.owner_state


def _shown(seconds: float) -> str:
    """At most so long, so it is rounded up."""
    whole = math.ceil(seconds)
    if whole <= 60:
        return f"{whole} s"
    units = ((7200, 60, "min", 1, "s"), (172800, 3600, "h", 60, "min"), (math.inf, 86400, "d", 3600, "h"))
    size, unit, smaller_size, smaller = next(one[1:] for one in units if whole < one[0])
    many, rest = divmod(math.ceil(whole / smaller_size), size // smaller_size)
    return f"{many} {unit}" + (f" {rest} {smaller}" if rest else "")


def _remembering(text: str, trouble: str) -> str:
    return f"{text}\nWARNING: a restart of the agent would forget this: {trouble}" if trouble else text
