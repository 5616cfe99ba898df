"""How much GPUs worked, for their owners and for guests, as machines say it in sums of an hour.

A sum says no moments. It is spread over the time it is of, and no machine can say more than its GPUs could
have done since it said so before. Who said what before this coordinator started is written down nowhere, as
nothing is of single machines: so of the time before its start nothing is believed, which costs each machine
what it had not told yet, most often less than an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.frames import BusyGpus
from gpunion.ports.usage_history import HOUR_S, BusySum

# A machine that was out of touch for longer than a day tells of its last day.
LONGEST_S = 24.0 * HOUR_S
WAITING_MAX = 10_000


class BusyHours:
    def __init__(self, began_s: float) -> None:
        """`began_s`: what was before may have been told before."""
        self._began_s = began_s
        self._told_s: dict[NodeId, float] = {}
        self._sums: dict[tuple[int, str], BusySum] = {}

    def heard(self, now_s: float, node: Node, told: BusyGpus) -> None:
        since_s = max(now_s - min(told.for_s, LONGEST_S), self._told_s.get(node.id, self._began_s))
        gpus = sum(not gpu.declared for gpu in node.facts.capacity.gpus)
        for_s = now_s - since_s
        if for_s <= 0.0 or not told.for_s or not gpus:
            return
        self._told_s[node.id] = now_s
        share = min(1.0, for_s / told.for_s)
        watched = min(told.watched_gpu_s * share, gpus * for_s)
        own = min(told.own_gpu_s * share, watched)
        guests = min(told.guest_gpu_s * share, watched - own)
        for hour_s, passed_s in _hours(since_s, now_s):
            part = passed_s / for_s
            self._add(
                BusySum(
                    at_s=hour_s,
                    lab=node.facts.lab,
                    watched_gpu_s=watched * part,
                    own_gpu_s=own * part,
                    guest_gpu_s=guests * part,
                )
            )

    def take(self) -> list[BusySum]:
        taken, self._sums = list(self._sums.values()), {}
        return taken

    def put_back(self, sums: Iterable[BusySum]) -> None:
        for one in sorted(sums, key=lambda one: one.at_s, reverse=True):
            if (one.at_s, one.lab) in self._sums or len(self._sums) < WAITING_MAX:
                self._add(one)

    def _add(self, one: BusySum) -> None:
        known = self._sums.get((one.at_s, one.lab))
        if known is not None:
            one = replace(
                one,
                watched_gpu_s=known.watched_gpu_s + one.watched_gpu_s,
                own_gpu_s=known.own_gpu_s + one.own_gpu_s,
                guest_gpu_s=known.guest_gpu_s + one.guest_gpu_s,
            )
        self._sums[one.at_s, one.lab] = one


def _hours(since_s: float, until_s: float) -> Iterator[tuple[int, float]]:
    while since_s < until_s:
        hour_s = int(since_s // HOUR_S) * HOUR_S
        next_s = min(hour_s + HOUR_S, until_s)
        yield hour_s, next_s - since_s
        since_s = next_s
