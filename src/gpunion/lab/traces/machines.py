"""From counts, node lists, log-ins, lifetimes and failures to the times in which machines could be used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gpunion.lab.traces.records import DownTime, Lifetime, LogIn, NodeChange, Supply
from gpunion.policy.hazard.history import LentSpan

Spans = dict[str, list[LentSpan]]


def spans_of_supply(supply: Iterable[Supply]) -> Spans:
    """Counts do not say which node went. The last to come is taken to be the first to go. A series that ends
    with everything gone at once was switched off: that is the end of the record and no departure."""
    series: dict[str, list[Supply]] = defaultdict(list)
    for change in supply:
        series[change.unit].append(change)
    return {unit: _spans_of_counts(changes) for unit, changes in series.items()}


def _spans_of_counts(changes: list[Supply]) -> list[LentSpan]:
    spans: list[LentSpan] = []
    since_s: list[float] = []
    end_s = changes[-1].at_s
    switched_off = len(changes) > 1 and changes[-1].nodes == 0 and changes[-2].nodes > 1
    for change in changes[:-1] if switched_off else changes:
        while len(since_s) > change.nodes:
            _add(spans, since_s.pop(), change.at_s, departed=True)
        since_s += [change.at_s] * (change.nodes - len(since_s))
    for began_s in since_s:
        _add(spans, began_s, end_s, departed=False)
    return spans


def spans_of_nodes(changes: Iterable[NodeChange]) -> Spans:
    spans: Spans = defaultdict(list)
    since_s: dict[tuple[str, str], float] = {}
    end_s = 0.0
    for change in changes:
        end_s, key = change.at_s, (change.unit, change.node)
        if change.added:
            since_s.setdefault(key, change.at_s)
        elif key in since_s:
            _add(spans[change.unit], since_s.pop(key), change.at_s, departed=True)
    for (unit, _), began_s in since_s.items():
        _add(spans[unit], began_s, end_s, departed=False)
    return dict(spans)


def spans_of_logins(logins: Iterable[LogIn]) -> Spans:
    """Every log-in takes a machine of its room back; between two of them the room is lent."""
    spans: Spans = defaultdict(list)
    latest_s: dict[str, float] = {}
    for login in sorted(logins, key=lambda one: one.at_s):
        if login.unit in latest_s:
            _add(spans[login.unit], latest_s[login.unit], login.at_s, departed=True)
        latest_s[login.unit] = login.at_s
    return dict(spans)


def spans_of_lifetimes(lifetimes: Iterable[Lifetime]) -> tuple[Spans, float]:
    """And the zone of the first: the file's own idea of local time."""
    spans: Spans = defaultdict(list)
    utc_offset_s: float | None = None
    for one in lifetimes:
        utc_offset_s = one.utc_offset_s if utc_offset_s is None else utc_offset_s
        _add(spans[one.unit], one.from_s, one.from_s + one.lifetime_s, departed=one.taken)
    return dict(spans), utc_offset_s or 0.0


def spans_of_downtimes(downtimes: Iterable[DownTime]) -> Spans:
    """Up from one failure's end to the next one's beginning. Before its first failure nobody knows since when
    a node was there; after its last it is counted as up until the last that was heard of its system."""
    of_node: dict[str, list[DownTime]] = defaultdict(list)
    end_s: dict[str, float] = {}
    for down in downtimes:
        of_node[down.node].append(down)
        end_s[down.system] = max(end_s.get(down.system, 0.0), down.to_s)
    spans: Spans = {}
    for node, downs in of_node.items():
        downs.sort(key=lambda one: one.from_s)
        spans[node] = []
        up_s = downs[0].to_s
        for down in downs[1:]:
            _add(spans[node], up_s, down.from_s, departed=True)
            up_s = max(up_s, down.to_s)
        _add(spans[node], up_s, end_s[downs[0].system], departed=False)
    return spans


def _add(spans: list[LentSpan], from_s: float, to_s: float, *, departed: bool) -> None:
    if to_s > from_s:
        spans.append(LentSpan(from_s=from_s, to_s=to_s, departed=departed, free_since_s=from_s))
