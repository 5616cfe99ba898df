"""From an owner's demand to reclaims: a rise in the GPUs a group runs, while others of its GPUs lie idle,
takes back what would have been lent.

A GPU between two jobs of its owner is not lent yet. It counts as lent once it has been idle for `idle_s`, so
a reclaim is a rise above everything the group ran in that time: a smaller one is met by GPUs kept back.
`idle_s` = 0 counts every rise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gpunion.lab.traces.records import Demand
from gpunion.policy.hazard.history import LentSpan

# Long enough that the steps of one batch of jobs are not ten reclaims, short against a working day.
# HTCondor's desktops wait 15 minutes; docs/hazard.md shows what 0, 15 and 60 minutes would change.
IDLE_S = 30 * 60.0


def spans_of_pools(demand: Iterable[Demand], idle_s: float = IDLE_S) -> dict[str, list[LentSpan]]:
    """Each pool's changes in order of time. What was before the first is unknown: nothing is lent yet."""
    pools: dict[str, _Pool] = {}
    for change in demand:
        if change.pool not in pools:
            pools[change.pool] = _Pool(idle_s)
        pools[change.pool].change(change)
    for pool in pools.values():
        pool.finish()
    return {name: pool.spans for name, pool in pools.items()}


class _Pool:
    def __init__(self, idle_s: float) -> None:
        self.spans: list[LentSpan] = []
        self._idle_s = idle_s
        self._now: Demand | None = None
        self._free_since_s: float | None = None
        # Nothing is lent before this: the pool was full, or unknown, less than `idle_s` ago.
        self._full_until_s = 0.0
        # What ran lately and until when it counts, highest first: a window's maximum in constant time.
        self._lately: deque[tuple[float, float]] = deque()

    def change(self, to: Demand) -> None:
        before = self._now
        if before is None:
            self._full_until_s = to.at_s + self._idle_s
            self._now = to
            return
        self._pass_time(before, to.at_s)
        lent = self._free_since_s is not None
        if lent and to.running > self._most_lately(before, to.at_s):
            self._end(to.at_s, departed=True)
            self._free_since_s = to.at_s
        if before.running >= before.total:
            self._full_until_s = to.at_s + self._idle_s
        if to.running >= to.total:
            self._end(to.at_s, departed=False)
        if to.running < before.running:
            self._remember(before.running, to.at_s + self._idle_s)
        self._now = to

    def _pass_time(self, before: Demand, to_s: float) -> None:
        """Something may have become lent between two changes, just by lying idle long enough."""
        idle = before.running < before.total
        if idle and self._free_since_s is None and self._full_until_s < to_s:
            self._free_since_s = max(before.at_s, self._full_until_s)

    def _most_lately(self, before: Demand, now_s: float) -> float:
        while self._lately and self._lately[0][1] <= now_s:
            self._lately.popleft()
        return max(before.running, self._lately[0][0] if self._lately else 0.0)

    def _remember(self, running: float, until_s: float) -> None:
        while self._lately and self._lately[-1][0] <= running:
            self._lately.pop()
        self._lately.append((running, until_s))

    def _end(self, at_s: float, *, departed: bool) -> None:
        since_s, self._free_since_s = self._free_since_s, None
        if since_s is not None and since_s < at_s:
            self.spans.append(LentSpan(from_s=since_s, to_s=at_s, departed=departed, free_since_s=since_s))

    def finish(self) -> None:
        """The record ends here; nobody was taken away by that."""
        if self._now is not None:
            self._end(self._now.at_s, departed=False)
