"""What is free of a node: its capacity less what runs hold and what is kept for jobs on their way."""

from __future__ import annotations

from math import inf

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.engine.coordinator.draft import Draft

# Naming a member of an enumeration takes longer than finding it here.
_LEFT, _SHARING = NodePhase.LEFT, NodePhase.SHARING


def view(draft: Draft, node_id: NodeId) -> NodeView:
    known = draft.state.views
    found = known.get(node_id)
    if found is None:
        found = known[node_id] = _count(draft, node_id)
    return found


def views(draft: Draft) -> list[NodeView]:
    """Of the nodes there are: what has left is nobody's choice, and no news to whoever waits."""
    return [view(draft, node.id) for node in draft.state.nodes.values() if node.phase is not _LEFT]


def with_free_gpus(draft: Draft) -> list[NodeView]:
    """Those of the views whose owners share them: on a full campus few, and everybody who waits asks for
    them."""
    found = draft.state.with_free_gpus
    if found is None:
        found = draft.state.with_free_gpus = [
            one.node.id for one in views(draft) if one.free_gpus and one.node.phase is _SHARING
        ]
    return [view(draft, node_id) for node_id in found]


def slowest_bps(draft: Draft) -> float:
    """What the slowest wire of any node lends."""
    wires_bps = (node.facts.lent_uplink_bps for node in draft.state.nodes.values())
    return min(wires_bps, default=inf)


def _count(draft: Draft, node_id: NodeId) -> NodeView:
    kept = [draft.state.migrations[m] for m in draft.state.reserved.get(node_id, ())]
    node = draft.state.nodes[node_id]
    runs = [draft.state.runs[run_id] for run_id in draft.state.living.get(node_id, ())]
    held = draft.state.held.values()
    runs += [run for job in held for run in job.runs if run.node_id == node_id]
    unknown = any(node_id in job.nodes for job in held)  # a guest is there that may hold anything
    promised = [draft.state.jobs[job_id] for job_id in draft.state.promised.get(node_id, ())]
    requests = [draft.state.jobs[migration.job_id].spec.request for migration in kept]
    taken = {index for run in runs for index in run.held_gpus}
    taken |= {index for migration in kept for index in migration.reserved_gpus}
    taken |= {index for job in promised if job.promised for index in job.promised.gpus}
    taken |= {gpu.index for gpu in node.withheld}
    cpus = sum(run.held_cpus for run in runs) + sum(request.cpus for request in requests)
    memory = sum(r.grant.memory_bytes for r in runs) + sum(r.memory_bytes for r in requests)
    capacity = node.facts.capacity
    allowed = node.facts.terms.memory_bytes
    lent_bytes = capacity.memory_bytes if allowed is None else min(capacity.memory_bytes, allowed)
    return NodeView(
        node=node,
        free_gpus=tuple(gpu for gpu in node.facts.lent_gpus if not unknown and gpu.index not in taken),
        free_cpus=0.0 if unknown else node.facts.lent_cpus - cpus,
        free_memory_bytes=lent_bytes - memory,
        guests=len(runs) + len(kept),
        installed=frozenset(one.digest for one in draft.state.installed.get(node_id, ())),
    )
