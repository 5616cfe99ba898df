"""A place for a job that needs several GPUs at once.

GPUs that come free one by one are taken one by one, and it would wait for ever. So it is promised those of
one machine that are free together soonest: all windows there end by then, and nobody begins there who would
stay longer. A promise is never put off, and few jobs have one, since idle GPUs are what it costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.window import Promise

PROMISES_MOST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Who has GPUs that would do. `free_by_s`: its turn is over and its state saved by then; None: nobody
    can say, since it takes no turns."""

    job_id: JobId
    gpus: tuple[int, ...]
    free_by_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One machine, as far as its GPUs would do for the job."""

    node_id: NodeId
    free: tuple[int, ...]
    tenants: Sequence[Tenant] = ()
    until_s: float | None = None  # its owner wants it then


def promise(
    gpus: int, places: Iterable[Place], now_s: float, *, given: int, least_stay_s: float = 0.0
) -> Promise | None:
    """On the machine that has enough of them soonest; of equals the one whose tenants lose least. `given`:
    how many promises there are already. None: nobody can say when."""
    if given >= PROMISES_MOST:
        return None
    found = [(place, one) for place in places if (one := _promised(gpus, place, now_s)) is not None]
    able = [
        (one.by_s, _displaced(place, one), one.node_id, one)
        for place, one in found
        if place.until_s is None or one.by_s + least_stay_s <= place.until_s
    ]
    return min(able, key=lambda way: way[:3])[3] if able else None


def promise_all(
    members: int,
    gpus: int,
    places: Iterable[tuple[Place, int]],
    now_s: float,
    *,
    least_stay_s: float = 0.0,
) -> tuple[Promise, ...] | None:
    """For the members of a gang, each of which needs so many GPUs of one machine: the places that are free
    together soonest, all of them from one moment on. `places`: with how many members have room there at
    most. None: nobody can say when."""
    seats = [seat for place, most in places for seat in _seats(place, gpus, most, now_s)]
    while len(seats) >= members > 0:
        seats.sort(key=lambda seat: (seat[0].by_s, seat[0].node_id, seat[0].gpus))
        soonest = seats[:members]
        by_s = soonest[-1][0].by_s
        wanted_before = [one for one in soonest if by_s + least_stay_s > one[1]]
        if not wanted_before:
            return tuple(replace(one, by_s=by_s) for one, _ in soonest)
        seats = [one for one in seats if one not in wanted_before]
    return None


def _promised(gpus: int, place: Place, now_s: float) -> Promise | None:
    free_s = _free_s(place, now_s)
    soonest = sorted(free_s, key=lambda gpu: (free_s[gpu], gpu))[:gpus]
    if len(soonest) < gpus or not soonest:
        return None
    by_s = max(free_s[gpu] for gpu in soonest)
    return None if by_s == inf else Promise(node_id=place.node_id, gpus=tuple(sorted(soonest)), by_s=by_s)


def _seats(place: Place, gpus: int, most: int, now_s: float) -> Iterator[tuple[Promise, float]]:
    """One for each member that has room there, with when its owner has the machine again."""
    free_s = _free_s(place, now_s)
    soonest = sorted((gpu for gpu in free_s if free_s[gpu] < inf), key=lambda gpu: (free_s[gpu], gpu))
    for first in range(0, gpus * min(most, len(soonest) // gpus), gpus):
        its = soonest[first : first + gpus]
        by_s = max(free_s[gpu] for gpu in its)
        until_s = inf if place.until_s is None else place.until_s
        yield Promise(node_id=place.node_id, gpus=tuple(sorted(its)), by_s=by_s), until_s


def _free_s(place: Place, now_s: float) -> dict[int, float]:
    free_s = dict.fromkeys(place.free, now_s)
    for tenant in place.tenants:
        at_s = inf if tenant.free_by_s is None else max(now_s, tenant.free_by_s)
        free_s |= dict.fromkeys(tenant.gpus, at_s)
    return free_s


def _displaced(place: Place, promised: Promise) -> int:
    return sum(not set(promised.gpus).isdisjoint(tenant.gpus) for tenant in place.tenants)
