"""Which guests may be reached just now, and which streams lead to them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator

from gpunion.domain.jobs.guest import Guest
from gpunion.tunnel.streams import Stream, StreamRefused

# Of one guest. A page of a notebook has about ten connections; a guest that serves a crowd is no session.
STREAMS_OF_A_GUEST_MAX = 128
# A page that is opened asks for some two hundred files, over ten connections that stay.
OPENED_MAX, OPENED_WITHIN_S = 300, 10.0
MOVED = "the session moves"


def why_not_reached(guest: Guest | None, owner_allows: bool) -> str:
    """Empty where a guest of this machine may be reached."""
    if not owner_allows:
        return "the owner of its machine allows nobody to work in guests"
    if guest is None or not guest.living:
        return StreamRefused.MOVING + "it is not on its machine"
    if guest.parking is not None:
        return StreamRefused.MOVING + "it stands still while the owner of its machine uses the GPU"
    return ""


class StreamGate:
    """A guest that is about to stand still has no streams: a dump is refused while somebody is connected, and
    nobody is to wait on a frozen program. Their users come back, and wait at the coordinator."""

    def __init__(
        self,
        why_not: Callable[[str], str] = lambda run_id: "",
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`why_not`: what keeps a guest from being reached at all; empty: nothing."""
        self._why_not = why_not
        self._now_s = now_s
        self._opened: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=OPENED_MAX))
        self._streams: dict[str, set[Stream]] = defaultdict(set)
        self._entered: dict[str, set[Stream]] = defaultdict(set)  # those that needed a process in the guest
        self._withheld: dict[str, int] = defaultdict(int)
        self._closed: dict[str, asyncio.Event] = {}

    @contextlib.contextmanager
    def through(self, run_id: str, stream: Stream, *, enters: bool = False) -> Iterator[None]:
        """While the stream leads to the guest. StreamRefused: not now, or not at all."""
        self._check(run_id)
        self._streams[run_id].add(stream)
        if enters:
            self._entered[run_id].add(stream)
        try:
            yield
        finally:
            for kept in (self._streams, self._entered):
                kept[run_id].discard(stream)
                if not kept[run_id]:
                    del kept[run_id]
            if run_id not in self._streams and run_id in self._closed:
                self._closed[run_id].set()

    def _check(self, run_id: str) -> None:
        why_not = self._why_not(run_id)
        if why_not:
            raise StreamRefused(why_not)
        if self._withheld.get(run_id):
            raise StreamRefused(StreamRefused.MOVING + "it is being saved whole")
        if len(self._streams.get(run_id, ())) >= STREAMS_OF_A_GUEST_MAX:
            raise StreamRefused(f"{STREAMS_OF_A_GUEST_MAX} streams lead to it already")
        opened = self._opened[run_id]
        if len(opened) == OPENED_MAX and self._now_s() - opened[0] < OPENED_WITHIN_S:
            raise StreamRefused(f"more than {OPENED_MAX} streams to it in {OPENED_WITHIN_S:.0f} s")

    def led(self, run_id: str) -> None:
        """A stream has come to something there. One that is refused uses nothing up: whoever waits for a
        program that starts asks often."""
        self._opened[run_id].append(self._now_s())

    def entered(self, run_id: str) -> int:
        """How many of its streams have a process of their own inside it."""
        return len(self._entered.get(run_id, ()))

    def leading_to(self, run_id: str) -> int:
        return len(self._streams.get(run_id, ()))

    async def close(self, run_id: str, why: str = MOVED) -> None:
        """Returns when nothing leads there any more."""
        if run_id not in self._streams:
            return
        gone = self._closed.setdefault(run_id, asyncio.Event())
        gone.clear()
        for stream in list(self._streams.get(run_id, ())):
            with contextlib.suppress(OSError):
                await stream.reset(StreamRefused.MOVING + why)
        if run_id in self._streams:
            await gone.wait()
        self._closed.pop(run_id, None)

    async def close_forbidden(self) -> None:
        """Those that led somewhere before its owner, or a notice, changed that."""
        for run_id in list(self._streams):
            why_not = self._why_not(run_id)
            for stream in list(self._streams.get(run_id, ())) if why_not else ():
                with contextlib.suppress(OSError):
                    await stream.reset(why_not)

    @contextlib.asynccontextmanager
    async def withheld(self, run_id: str) -> AsyncIterator[None]:
        """Nothing leads there meanwhile."""
        self.withhold(run_id)
        try:
            await self.close(run_id)
            yield
        finally:
            self.allow(run_id)

    def forget(self, run_id: str) -> None:
        """It has ended; its streams end by themselves."""
        self._withheld.pop(run_id, None)
        self._opened.pop(run_id, None)

    def withhold(self, run_id: str) -> None:
        self._withheld[run_id] += 1

    def allow(self, run_id: str) -> None:
        if self._withheld.get(run_id, 0) <= 1:
            self._withheld.pop(run_id, None)
        else:
            self._withheld[run_id] -= 1
