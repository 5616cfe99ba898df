"""Lets a program give up its GPU between two steps, and go on later as if nothing had been.

When the machine's owner wants the GPU for a while, the agent asks for it in a file. What the program has on
the GPU goes to host memory in a fraction of the time that the driver needs for it from outside; then the
program waits. The agent freezes it there. When the GPU is lent again everything comes back, and the next step
begins.

A program need not do this: what does not step aside is moved by the driver. GPUNION_STEP_ASIDE=0 in a job's
environment says that it shall not; a program that computes on the GPU in several threads should say so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Protocol

from gpunion.sdk.job.messages import Aside, Mailbox
from gpunion.sdk.job.torch_memory import CannotSetAside, NoRoomYet, TorchMemory

LOOK_S = 0.02
ROOM_LOOK_S = 0.2
# The owner's last program may take a moment to leave the GPU; who finds it full for longer cannot go on.
ROOM_LIMIT_S = 600.0
SWITCH = "GPUNION_STEP_ASIDE"


class ProgramMemory(Protocol):
    """What a program has on its GPUs."""

    def set_aside(self, wanted: Callable[[], bool]) -> int:
        """Returns how many bytes it was. CannotSetAside: it is all where it was, also where it was not
        `wanted` any more."""
        ...

    def bring_back(self) -> None:
        """NoRoomYet: it is all still set aside."""
        ...


def memory_in_use() -> ProgramMemory | None:
    """Of the library that this program computes with; None where there is nothing, or nothing we know."""
    torch = sys.modules.get("torch")
    if torch is None or os.environ.get(SWITCH) == "0":
        return None
    cuda = getattr(torch, "cuda", None)  # half imported as yet: another thread is at it
    return TorchMemory(torch) if cuda is not None and cuda.is_initialized() else None


class StepsAside:
    """Asked between any two steps, of a program that is one process."""

    def __init__(self, mailbox: Mailbox, memory: Callable[[], ProgramMemory | None] = memory_in_use) -> None:
        self._mailbox = mailbox
        self._memory = memory

    def between_steps(self) -> None:
        if self._mailbox.directory is None:
            return
        memory = self._memory()
        self._mailbox.steps_aside = memory is not None
        asked = self._mailbox.aside() if memory is not None else None
        if asked is not None and memory is not None:
            self._step_aside(asked, memory)

    def _step_aside(self, asked: str, memory: ProgramMemory) -> None:
        began_s = time.monotonic()
        self._mailbox.answer_aside(Aside(id=asked))
        try:
            moved_bytes = memory.set_aside(lambda: self._mailbox.aside_now() == asked)
        except CannotSetAside as trouble:
            self._mailbox.answer_aside(Aside(id=asked, trouble=str(trouble) or "it gives no reason"))
            return
        took_s = time.monotonic() - began_s
        with _handlers_held_back():
            self._wait(asked, memory, moved_bytes, took_s)
        self._mailbox.aside_is_over()

    def _wait(self, asked: str, memory: ProgramMemory, moved_bytes: int, took_s: float) -> None:
        until_s: float | None = None
        while True:
            self._mailbox.answer_aside(Aside(id=asked, done=True, moved_bytes=moved_bytes, took_s=took_s))
            while (now := self._mailbox.aside_now()) == asked:
                time.sleep(LOOK_S)
            if now is not None:  # asked again, by an agent that does not know of the first time
                asked, until_s = now, None
                continue
            until_s = time.monotonic() + ROOM_LIMIT_S if until_s is None else until_s
            try:
                memory.bring_back()
                return
            except NoRoomYet:
                if time.monotonic() > until_s:
                    raise
                time.sleep(ROOM_LOOK_S)


@contextlib.contextmanager
def _handlers_held_back() -> Iterator[None]:
    """A program that saves itself when it is told to end would save tensors that are not there. It hears of
    it when they are. Programs without a handler of their own end at once, as ever."""
    heard: list[int] = []
    held: dict[int, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for signum in (signal.SIGTERM, signal.SIGINT):
            handler = signal.getsignal(signum)
            if callable(handler):
                held[signum] = handler
                signal.signal(signum, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        for number, held_back in held.items():
            signal.signal(number, held_back)
        for number in heard:
            signal.raise_signal(number)
