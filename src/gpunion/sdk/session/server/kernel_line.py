"""Has a kernel run one line, by Jupyter's messages: in its turn, or beside a cell that goes on."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import Any

# What a kernel's control channel takes to answer; it is a thread of its own, so a cell does not delay it.
CONTROL_LIMIT_S = 5.0
FORGET_LIMIT_S = 1.0  # what was asked is done, or given up
NO_SUBSHELL = "its cell went on, and this kernel cannot do two things at once"


class NoAnswer(Exception):
    """The kernel did not do it in time."""


class Refused(Exception):
    """The kernel did it, and an error came of it."""


class KernelLine:
    """A connection to one kernel."""

    def __init__(self, kernel: Any) -> None:
        self._client = kernel.client()
        # All clients of a kernel begin with one identity and count their messages from 0: two lines at a time
        # would be given each other's answers.
        self._client.session.bsession = uuid.uuid4().hex.encode()
        self._client.session.message_count = uuid.uuid4().int >> 80

    async def __aenter__(self) -> KernelLine:
        self._client.start_channels(shell=True, iopub=False, stdin=False, hb=False, control=True)
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._client.stop_channels()

    async def run(self, code: str, limit_s: float) -> None:
        """After the cells that wait already."""
        await self._answer(self._send(code), limit_s)

    def begin(self, code: str) -> str:
        """It is in the kernel's queue, ahead of whatever comes later."""
        return self._send(code)

    async def answered(self, begun: str, limit_s: float) -> None:
        await self._answer(begun, limit_s)

    async def run_beside(self, code: str, limit_s: float) -> None:
        """At once, in a subshell: a thread of the kernel beside the one that its cell runs in."""
        until_s = time.monotonic() + limit_s
        told = await self._control("create_subshell_request", {}, min(limit_s, CONTROL_LIMIT_S))
        subshell = told.get("subshell_id")
        if not subshell:
            raise NoAnswer(NO_SUBSHELL)
        try:
            await self._answer(self._send(code, subshell), until_s - time.monotonic())
        finally:
            with contextlib.suppress(NoAnswer):
                await self._control("delete_subshell_request", {"subshell_id": subshell}, FORGET_LIMIT_S)

    def _send(self, code: str, subshell: str | None = None) -> str:
        content = {
            "code": code,
            "silent": True,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        message = self._client.session.msg("execute_request", content)
        if subshell:
            message["header"]["subshell_id"] = subshell
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    async def _control(self, kind: str, content: dict[str, object], limit_s: float) -> dict[str, Any]:
        message = self._client.session.msg(kind, content)
        self._client.control_channel.send(message)
        return await self._reply(self._client.control_channel, message["header"]["msg_id"], limit_s)

    async def _answer(self, sent: str, limit_s: float) -> None:
        told = await self._reply(self._client.shell_channel, sent, limit_s)
        if told.get("status") == "error":
            raise Refused(f"{told.get('ename')}: {told.get('evalue')}")
        if told.get("status") == "aborted":
            raise NoAnswer("a cell before it failed, and the kernel dropped what waited")

    async def _reply(self, channel: Any, sent: str, limit_s: float) -> dict[str, Any]:
        until_s = time.monotonic() + limit_s
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                message = await asyncio.wait_for(channel.get_msg(timeout=left_s), left_s + 1.0)
            except Exception as trouble:  # `queue.Empty`, or a message that is none
                if not isinstance(trouble, TimeoutError) and time.monotonic() < until_s:
                    await asyncio.sleep(0.01)
                continue
            if message["parent_header"].get("msg_id") == sent:
                return dict(message["content"])
        raise NoAnswer(f"the kernel did not answer within {limit_s:.0f} s")
