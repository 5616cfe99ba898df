"""What is free of a node: its capacity less what runs hold and what is kept for jobs on their way."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from gpunion.domain.ids import NodeId
from gpunion.domain.node import NodePhase
from gpunion.domain.snapshot import NodeView
from gpunion.engine.draft import Draft
from gpunion.engine.wishes import Wish
from gpunion.policy.placement.filters import has_room

_LEFT = NodePhase.LEFT  # naming a member of an enumeration takes longer than finding it here


def view(draft: Draft, node_id: NodeId) -> NodeView:
    known = draft.state.room.views
    found = known.get(node_id)
    if found is None:
        found = known[node_id] = _count(draft, node_id)
    return found


def views(draft: Draft) -> list[NodeView]:
    """Of the nodes there are: what has left is nobody's choice, and no news to whoever waits."""
    return [view(draft, node.id) for node in draft.state.nodes.values() if node.phase is not _LEFT]


def slowest_bps(draft: Draft) -> float:
    """What the slowest wire of any node lends."""
    room = draft.state.room
    if room.slowest_bps is None:
        wires_bps = (node.facts.lent_uplink_bps for node in draft.state.nodes.values())
        room.slowest_bps = min(wires_bps, default=inf)
    return room.slowest_bps


def in_vain(draft: Draft, wish: Wish) -> bool:
    """No node would do for this wish the last time, and none that changed since has room for it."""
    room = draft.state.room
    return wish.hopeless_at == room.version or not hopeful(draft, (wish,))


def hopeful(draft: Draft, wishes: Iterable[Wish]) -> set[Wish]:
    """Those that are not in vain. Most were last asked at the same moment: what changed is looked at once."""
    room, nodes = draft.state.room, draft.state.nodes
    found: set[Wish] = set()
    changed: dict[int, list[NodeView]] = {}
    for wish in wishes:
        since = wish.hopeless_at
        if since == room.version:
            continue
        if since is None:
            found.add(wish)
            continue
        views = changed.get(since)
        if views is None:
            views = [view(draft, one) for one in room.changed_since(since) if one in nodes]
            changed[since] = views
        request = wish.request
        for one in views:
            if len(one.free_gpus) >= request.gpus and has_room(request, one):  # most are full
                found.add(wish)
                break
        else:
            wish.hopeless_at = room.version
    return found


def _count(draft: Draft, node_id: NodeId) -> NodeView:
    kept = [draft.state.migrations[m] for m in draft.state.room.reserved.get(node_id, ())]
    node = draft.state.nodes[node_id]
    runs = [draft.state.runs[run_id] for run_id in draft.state.living.get(node_id, ())]
    requests = [draft.state.jobs[migration.job_id].spec.request for migration in kept]
    taken = {index for run in runs for index in run.held_gpus}
    taken |= {index for migration in kept for index in migration.reserved_gpus}
    taken |= {gpu.index for gpu in node.withheld}
    cpus = sum(run.grant.cpus for run in runs) + sum(request.cpus for request in requests)
    memory = sum(r.grant.memory_bytes for r in runs) + sum(r.memory_bytes for r in requests)
    capacity = node.facts.capacity
    allowed = node.facts.terms.memory_bytes
    lent_bytes = capacity.memory_bytes if allowed is None else min(capacity.memory_bytes, allowed)
    return NodeView(
        node=node,
        free_gpus=tuple(gpu for gpu in node.facts.lent_gpus if gpu.index not in taken),
        free_cpus=node.facts.lent_cpus - cpus,
        free_memory_bytes=lent_bytes - memory,
        guests=len(runs) + len(kept),
    )
