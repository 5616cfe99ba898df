"""A flow-level network: what bytes are on their way, how fast each flow goes, and when it will be there.

Rates are worked out again at every change (a flow comes, goes or is capped; background traffic shifts)
and hold in between, so that the time of every arrival is known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf

from gpunion.sim.kernel import Alarm, Kernel
from gpunion.sim.network.fair_share import max_min_rates

BITS = 8.0
# Less than this is rounding: after a week of virtual time one step of the float clock is 0.1 ns, which is
# more than a byte at 100 Gbit/s.
DONE_BYTES = 16.0


class Flow:
    """Bytes on their way. `moved_bytes` is exact up to the last change of rates."""

    __slots__ = ("cap_bps", "done", "links", "moved_bytes", "name", "on_done", "rate_bps", "size_bytes")

    def __init__(
        self,
        name: str,
        links: tuple[str, ...],
        size_bytes: float,
        cap_bps: float | None,
        on_done: Callable[[], None],
    ) -> None:
        self.name = name
        self.links = links
        self.size_bytes = size_bytes
        self.cap_bps = cap_bps
        self.on_done = on_done
        self.moved_bytes = 0.0
        self.rate_bps = 0.0
        self.done = False


class Network:
    def __init__(self, kernel: Kernel, capacity_bps: Mapping[str, float]) -> None:
        self._kernel = kernel
        self.capacity_bps = dict(capacity_bps)
        self._background = dict.fromkeys(self.capacity_bps, 0.0)
        self._cut: set[str] = set()
        self._open_bps = dict(self.capacity_bps)  # what background traffic and cuts leave of each link
        self._flows: list[Flow] = []
        self._since_s = 0.0
        self._next: Alarm | None = None
        self.carried_bytes = 0.0
        self.after_change: Callable[[], None] | None = None

    @property
    def flows(self) -> tuple[Flow, ...]:
        return tuple(self._flows)

    def start(
        self,
        name: str,
        links: tuple[str, ...],
        size_bytes: float,
        on_done: Callable[[], None],
        cap_bps: float | None = None,
    ) -> Flow:
        """`on_done` is called once, later, when the last byte is there; never after `cancel`."""
        flow = Flow(name, links, max(0.0, size_bytes), cap_bps or None, on_done)
        self._settle()
        self._flows.append(flow)
        self._share()
        return flow

    def cancel(self, flow: Flow) -> None:
        if flow.done:
            return
        flow.done = True
        self._settle()
        self._flows.remove(flow)
        self._share()

    def set_background(self, link: str, share: float) -> None:
        """`share` of the link's capacity, 0 to under 1, from now on."""
        self._settle()
        self._background[link] = min(max(share, 0.0), 0.99)
        self._open([link])
        self._share()

    def cut(self, links: Iterable[str]) -> None:
        """Nothing passes any more; flows wait."""
        self._settle()
        links = tuple(links)
        self._cut.update(links)
        self._open(links)
        self._share()

    def mend(self, links: Iterable[str]) -> None:
        self._settle()
        links = tuple(links)
        self._cut.difference_update(links)
        self._open(links)
        self._share()

    def _open(self, links: Iterable[str]) -> None:
        """Background is never shaped: it takes its share first."""
        for link in links:
            left = self.capacity_bps[link] * (1.0 - self._background[link])
            self._open_bps[link] = 0.0 if link in self._cut else left

    def _settle(self) -> None:
        elapsed_s = self._kernel.now_s - self._since_s
        self._since_s = self._kernel.now_s
        if elapsed_s <= 0.0:
            return
        for flow in self._flows:
            moved, left = flow.rate_bps / BITS * elapsed_s, flow.size_bytes - flow.moved_bytes
            if moved > left:
                moved = left
            flow.moved_bytes += moved
            self.carried_bytes += moved

    def _share(self) -> None:
        first_s, since_s = inf, self._since_s
        if self._flows:
            rates = max_min_rates(self._flows, self._open_bps)
            for flow, rate_bps in zip(self._flows, rates, strict=True):
                flow.rate_bps = rate_bps
                left = flow.size_bytes - flow.moved_bytes
                if left <= DONE_BYTES:
                    first_s = since_s
                elif rate_bps > 0.0:
                    there_s = since_s + left * BITS / rate_bps
                    if there_s < first_s:
                        first_s = there_s
        if self._next is not None:
            self._next.cancel()
        self._next = self._kernel.at(first_s, self._arrive) if first_s < inf else None
        if self.after_change is not None:
            self.after_change()

    def _arrive(self) -> None:
        self._settle()
        there = [flow for flow in self._flows if flow.size_bytes - flow.moved_bytes <= DONE_BYTES]
        for flow in there:
            flow.done = True
            self.carried_bytes += flow.size_bytes - flow.moved_bytes
            flow.moved_bytes = flow.size_bytes
            self._flows.remove(flow)
        self._share()
        for flow in there:
            flow.on_done()
